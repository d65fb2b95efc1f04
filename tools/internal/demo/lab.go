package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/replay"
)

const (
	labBlocks     = 12
	labBlockBytes = 192 << 10 // three chunks
	labCapacity   = 256 << 20
	labTenant     = "demo"
	labTimeout    = time.Minute // to close a store
)

var labBytes = blockgen.New(2)

func labRef(i int) blockgen.Ref { return blockgen.Ref{Scope: "demo", ID: uint64(i)} }

func labHash(i int) []byte {
	h := labRef(i).Hash()
	return h[:]
}

func labLayout() layout.Layout {
	l := replay.Layout(labBlockBytes, 16)
	l.Model, l.Layers, l.KVHeads, l.HeadSize = "demo-model", 6, 8, 64
	return l
}

// open opens the store of a scenario.
func open(ctx context.Context, dir string) (*engine.Store, *engine.Namespace, error) {
	s, err := engine.Open(dir, replay.Options(labCapacity, labBlockBytes))
	if err != nil {
		return nil, nil, err
	}
	n, err := s.Namespace(ctx, labLayout(), labTenant, engine.NamespaceOptions{})
	if err != nil {
		return nil, nil, errors.Join(err, closeStore(ctx, s))
	}
	return s, n, nil
}

func closeStore(ctx context.Context, s *engine.Store) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), labTimeout)
	defer cancel()
	return s.Close(ctx)
}

// fill makes a store with labBlocks blocks and closes it. The blocks named in
// drop are dropped again.
func fill(ctx context.Context, dir string, drop ...int) (err error) {
	s, n, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore(ctx, s)) }()
	puts := make([]engine.PutBlock, labBlocks)
	for i := range puts {
		data := make([]byte, labBlockBytes)
		labBytes.Fill(data, labRef(i))
		puts[i] = engine.PutBlock{Hash: labHash(i), Planes: []engine.PlaneData{{Name: "kv", Spans: [][]byte{data}}}}
		if i > 0 {
			puts[i].Parent = labHash(i - 1)
		}
	}
	for i, r := range n.Put(ctx, puts, engine.PutOptions{Durable: true}) {
		if r.Status != engine.StatusOK {
			return fmt.Errorf("put block %d: %s: %w", i, r.Status, r.Err)
		}
	}
	for _, i := range drop {
		for _, r := range n.Drop(ctx, [][]byte{labHash(i)}) {
			if r.Status != engine.StatusOK {
				return fmt.Errorf("drop block %d: %s: %w", i, r.Status, r.Err)
			}
		}
	}
	return s.Flush(ctx)
}

// finding is what a get of one block came to.
type finding struct {
	status engine.Status
	wrong  int64 // bytes that differ, whatever the status
	reason string
}

// readAll gets every block of the namespace and compares its bytes.
func readAll(ctx context.Context, n *engine.Namespace) []finding {
	gets := make([]engine.GetBlock, labBlocks)
	data := make([][]byte, labBlocks)
	for i := range gets {
		data[i] = make([]byte, labBlockBytes)
		gets[i] = engine.GetBlock{Hash: labHash(i), Parts: []engine.Part{{Spans: [][]byte{data[i]}}}}
	}
	found := make([]finding, labBlocks)
	results := n.Get(ctx, gets, engine.GetOptions{})
	for i := range found {
		if i >= len(results) {
			continue // no status is no success
		}
		found[i].status = results[i].Status
		if results[i].Err != nil {
			found[i].reason = results[i].Err.Error()
		}
		if found[i].status == engine.StatusOK {
			_, found[i].wrong = labBytes.Compare(data[i], labRef(i))
			continue
		}
		for _, b := range data[i] {
			if b != 0 { // a miss leaves the destination as it was: zero
				found[i].wrong++
			}
		}
	}
	return found
}
