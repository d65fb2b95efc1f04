package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

const (
	tenant = "replay"
	plane  = "kv"
	// blockRoom is the smallest bound on blocks that a store is opened with: a
	// segment holds two of the largest, and 1 MiB allows the smallest segments.
	blockRoom = 1 << 20
)

// Options are the engine's options for a store of blocks of one size.
func Options(capacityBytes, blockBytes int64) engine.Options {
	return engine.Options{CapacityBytes: capacityBytes, MaxBlockBytes: max(blockBytes, blockRoom)}
}

// Layout describes blocks of blockgen: one plane, and hashes without a root.
func Layout(blockBytes int64, tokensPerBlock int) layout.Layout {
	return layout.Layout{
		Model: "trace-replay", WeightsDigest: layout.None, DType: "u8", KVLayout: layout.NHD,
		TokensPerBlock: uint32(max(tokensPerBlock, 1)), Layers: 1, KVHeads: 1, HeadSize: 1,
		Planes: []layout.Plane{{Name: plane, SizeBytes: blockBytes}},
		TP:     layout.Parallel{Size: 1}, PP: layout.Parallel{Size: 1}, CP: layout.Parallel{Size: 1},
		RoPE: layout.None, Attention: layout.None, HybridKVManager: layout.Off,
		EngineName: "sealstone-replay", LayoutVersion: "1",
		Hash: layout.HashScheme{Algorithm: "sha256", WidthBytes: blockgen.HashBytes, Root: layout.None},
	}
}

// OpenEngine opens the engine's store in the Config's directory and makes it
// if it is not there.
func OpenEngine(ctx context.Context, c Config) (Store, error) {
	o := Options(c.CapacityBytes, c.BlockBytes)
	o.OnIncompatible = c.OnIncompatible
	s, err := engine.Open(c.Dir, o)
	if err != nil {
		return nil, err
	}
	n, err := s.Namespace(ctx, Layout(c.BlockBytes, c.TokensPerBlock), tenant, engine.NamespaceOptions{})
	if err != nil {
		return nil, errors.Join(err, closeStore(ctx, &engineStore{store: s}))
	}
	return &engineStore{s, n}, nil
}

// engineStore is the engine as a replay sees it.
type engineStore struct {
	store     *engine.Store
	namespace *engine.Namespace
}

func (e *engineStore) Match(ctx context.Context, hashes [][]byte) (int, func(), error) {
	lease, err := e.namespace.Match(ctx, hashes)
	if err != nil {
		return 0, nil, err
	}
	return lease.Blocks(), lease.Release, nil
}

func (e *engineStore) Get(ctx context.Context, blocks []Block) []Result {
	gets := make([]engine.GetBlock, len(blocks))
	for i, b := range blocks {
		gets[i] = engine.GetBlock{Hash: b.Hash, Parts: []engine.Part{{Spans: [][]byte{b.Data}}}}
	}
	results := e.namespace.Get(ctx, gets, engine.GetOptions{})
	out := make([]Result, len(results))
	for i, r := range results {
		out[i] = Result{OK: r.Status == engine.StatusOK, Status: r.Status.String(), Bytes: r.Bytes, Err: r.Err}
	}
	return out
}

func (e *engineStore) Put(ctx context.Context, blocks []Block) []Result {
	puts := make([]engine.PutBlock, len(blocks))
	for i, b := range blocks {
		puts[i] = engine.PutBlock{Hash: b.Hash, Parent: b.Parent,
			Planes: []engine.PlaneData{{Name: plane, Spans: [][]byte{b.Data}}}}
	}
	results := e.namespace.Put(ctx, puts, engine.PutOptions{})
	out := make([]Result, len(results))
	for i, r := range results {
		out[i] = Result{
			OK: r.Status == engine.StatusOK, Status: r.Status.String(),
			Existed: r.Existed, Shed: r.Status == engine.StatusShed, Err: r.Err,
		}
		if r.Status == engine.StatusOK && r.Differs {
			// Blocks of one id never differ: the store holds something else.
			out[i] = Result{Status: "Differs", Err: fmt.Errorf("replay: the store holds other bytes under %x", blocks[i].Hash)}
		}
	}
	return out
}

func (e *engineStore) Drop(ctx context.Context, hash []byte) Result {
	for _, r := range e.namespace.Drop(ctx, [][]byte{hash}) {
		return Result{OK: r.Status == engine.StatusOK, Status: r.Status.String(), Err: r.Err}
	}
	return Result{Status: "None", Err: errNoAnswer}
}

func (e *engineStore) NewBuffer(sizeBytes int) ([]byte, func(), error) {
	b, err := e.store.NewBuffer(sizeBytes)
	if err != nil {
		return nil, nil, err
	}
	return b.Bytes(), b.Free, nil
}

func (e *engineStore) Counters() Counters {
	s := e.store.Stats()
	return Counters{
		SegmentBytes: s.WrittenBytes, LogBytes: s.LogWrittenBytes,
		IndexBytes: s.IndexWrittenBytes, Evicted: s.EvictedBlocks,
	}
}

func (e *engineStore) Flush(ctx context.Context) error { return e.store.Flush(ctx) }
func (e *engineStore) Close(ctx context.Context) error { return e.store.Close(ctx) }
