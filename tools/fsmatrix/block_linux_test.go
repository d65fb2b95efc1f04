package fsmatrix

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20

	maxBlockBytes = 1 * mib
	capacityBytes = 96 * mib
)

// sizes of blocks, around the borders of pages and chunks.
var sizes = []int{1, 4095, 4096, 4097, 64 << 10, 64<<10 + 1, 300_001, 1 << 20}

func sizeOf(id int) int { return sizes[id%len(sizes)] }

// content is what block id holds: bytes that no other block has.
func content(id int) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(id))
	p := make([]byte, sizeOf(id))
	_, _ = rand.NewChaCha8(seed).Read(p)
	return p
}

func hashOf(id int) []byte {
	h := sha256.Sum256(fmt.Append(nil, "block ", id))
	return h[:]
}

// options are those of a small store.
func options(path engine.PathChoice) engine.Options {
	return engine.Options{
		CapacityBytes: capacityBytes, FreeFloorBytes: 1 * mib, MaxBlockBytes: maxBlockBytes,
		MaxInflightBytes: 16 * mib, IndexCacheBytes: 4 * mib, Path: path,
	}
}

// space opens the namespace that all tests use.
func space(ctx context.Context, s *engine.Store) (*engine.Namespace, error) {
	return s.Namespace(ctx, layout.Opaque("fsmatrix"), "tenant", engine.NamespaceOptions{})
}

// put stores blocks [from, to) in one batch.
func put(ctx context.Context, n *engine.Namespace, from, to int, durable bool) []engine.PutResult {
	var batch []engine.PutBlock
	for id := from; id < to; id++ {
		batch = append(batch, engine.PutBlock{
			Hash: hashOf(id), Planes: []engine.PlaneData{{Name: "value", Spans: [][]byte{content(id)}}},
		})
	}
	return n.Put(ctx, batch, engine.PutOptions{Durable: durable})
}

// poison is what destinations hold before a get.
const poison = 0xdb

// get reads blocks [from, to) in one batch and compares every byte: of what is
// OK with the content, of what is not with the poison. The error is of the
// first wrong byte; statuses are the caller's to judge.
func get(ctx context.Context, n *engine.Namespace, from, to int) ([]engine.GetResult, error) {
	var batch []engine.GetBlock
	var into [][]byte
	for id := from; id < to; id++ {
		p := bytes.Repeat([]byte{poison}, sizeOf(id))
		into = append(into, p)
		batch = append(batch, engine.GetBlock{Hash: hashOf(id), Parts: []engine.Part{{Plane: "value", Spans: [][]byte{p}}}})
	}
	results := n.Get(ctx, batch, engine.GetOptions{})
	for i, r := range results {
		want := content(from + i)
		if r.Status != engine.StatusOK {
			want = bytes.Repeat([]byte{poison}, len(want))
		}
		if at := firstDifference(into[i], want); at >= 0 {
			return results, fmt.Errorf("WRONG BYTES: block %d, status %v, byte %d of %d", from+i, r.Status, at, len(want))
		}
	}
	return results, nil
}

// getRange reads a part of a block and compares it.
func getRange(ctx context.Context, n *engine.Namespace, id, off, length int) error {
	p := bytes.Repeat([]byte{poison}, length)
	r := n.Get(ctx, []engine.GetBlock{{Hash: hashOf(id), Parts: []engine.Part{
		{Plane: "value", OffsetBytes: int64(off), LengthBytes: int64(length), Spans: [][]byte{p[:length/3], p[length/3:]}},
	}}}, engine.GetOptions{})[0]
	if r.Status != engine.StatusOK {
		return fmt.Errorf("bytes %d to %d of block %d: %v: %w", off, off+length, id, r.Status, r.Err)
	}
	if at := firstDifference(p, content(id)[off:off+length]); at >= 0 {
		return fmt.Errorf("WRONG BYTES: block %d, byte %d", id, off+at)
	}
	return nil
}

// getDevice reads a block straight into memory of the store.
func getDevice(ctx context.Context, s *engine.Store, n *engine.Namespace, id int) error {
	buf, err := s.NewBuffer(sizeOf(id))
	if err != nil {
		return err
	}
	defer buf.Free()
	r := n.Get(ctx, []engine.GetBlock{{Hash: hashOf(id), Parts: []engine.Part{{Plane: "value", Spans: [][]byte{buf.Bytes()}}}}},
		engine.GetOptions{WaitForDevice: true})[0]
	if r.Status != engine.StatusOK {
		return fmt.Errorf("block %d into memory of the store: %v: %w", id, r.Status, r.Err)
	}
	if at := firstDifference(buf.Bytes(), content(id)); at >= 0 {
		return fmt.Errorf("WRONG BYTES: block %d, byte %d", id, at)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// allOK is an error unless each result is OK.
func allOK[R engine.PutResult | engine.GetResult](results []R) error {
	for i, r := range results {
		var st engine.Status
		var err error
		switch r := any(r).(type) {
		case engine.PutResult:
			st, err = r.Status, r.Err
		case engine.GetResult:
			st, err = r.Status, r.Err
		}
		if st != engine.StatusOK {
			return errors.Join(fmt.Errorf("block %d of the batch: %v", i, st), err)
		}
	}
	return nil
}
