package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

const (
	// blockRoom is the smallest bound on blocks that a store is opened with: a
	// segment holds two of the largest, and 1 MiB allows the smallest segments.
	blockRoom = 1 << 20
	// inflightMin and workersMin are the engine's own defaults.
	inflightMin = 256 << 20
	workersMin  = 32
)

// OpenEngine makes a store of the engine. Beside the engine's errors there is
// ErrConfig, for a path that does not exist.
func OpenEngine(ctx context.Context, dir string, s Shape) (Store, error) {
	path, err := engine.ParsePath(s.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	e := &engineStore{shape: s, names: make([]string, s.Planes)}
	planes := make([]layout.Plane, s.Planes)
	for i := range planes {
		from, to := s.plane(i)
		e.names[i] = fmt.Sprintf("plane%03d", i)
		planes[i] = layout.Plane{Name: e.names[i], SizeBytes: to - from}
	}
	e.store, err = engine.Open(dir, engine.Options{
		CapacityBytes: s.CapacityBytes, SegmentBytes: s.SegmentBytes, MaxBlockBytes: max(s.BlockBytes, blockRoom), CreateOnly: !s.Existing,
		MaxInflightBytes: max(2*s.InflightBytes, inflightMin), Path: path,
		ReadWorkers: max(s.Depth, workersMin),
	})
	if err != nil {
		return nil, err
	}
	e.namespace, err = e.store.Namespace(ctx, benchLayout(planes), "bench", engine.NamespaceOptions{})
	if err != nil {
		return nil, errors.Join(err, e.store.Close(context.WithoutCancel(ctx)))
	}
	return e, nil
}

func benchLayout(planes []layout.Plane) layout.Layout {
	return layout.Layout{
		Model: "bench", WeightsDigest: layout.None, DType: "u8", KVLayout: layout.NHD,
		TokensPerBlock: 16, Layers: uint32(len(planes)), KVHeads: 1, HeadSize: 1, Planes: planes,
		TP: layout.Parallel{Size: 1}, PP: layout.Parallel{Size: 1}, CP: layout.Parallel{Size: 1},
		RoPE: layout.None, Attention: layout.None, HybridKVManager: layout.Off,
		EngineName: "sealstone-bench", LayoutVersion: "1",
		Hash: layout.HashScheme{Algorithm: "sha256", WidthBytes: blockgen.HashBytes, Root: layout.None},
	}
}

// engineStore is the engine as the bench sees it.
type engineStore struct {
	shape     Shape
	names     []string // of the planes
	store     *engine.Store
	namespace *engine.Namespace
}

// Put implements Store.
func (e *engineStore) Put(ctx context.Context, blocks []Block) []Answer {
	puts := make([]engine.PutBlock, len(blocks))
	for i, b := range blocks {
		puts[i] = engine.PutBlock{Hash: b.Hash, Parent: b.Parent, Planes: make([]engine.PlaneData, e.shape.Planes)}
		for p := range e.shape.Planes {
			from, to := e.shape.plane(p)
			puts[i].Planes[p] = engine.PlaneData{Name: e.names[p], Spans: [][]byte{b.Data[from:to]}}
		}
	}
	out := make([]Answer, len(blocks))
	for i, r := range e.namespace.Put(ctx, puts, engine.PutOptions{}) {
		out[i] = Answer{OK: r.Status == engine.StatusOK, Status: r.Status.String(), Err: r.Err}
		if out[i].OK && (r.Existed || r.Shared) {
			// Nothing was written: it would count as speed.
			out[i] = Answer{Status: "Existed", Err: errors.New("bench: the store holds this block already")}
		}
	}
	return out
}

// Get implements Store.
func (e *engineStore) Get(ctx context.Context, blocks []Block) []Answer {
	gets := make([]engine.GetBlock, len(blocks))
	for i, b := range blocks {
		gets[i] = engine.GetBlock{Hash: b.Hash, Parts: make([]engine.Part, b.Planes)}
		rest := b.Data
		for p := range b.Planes {
			from, to := e.shape.plane(b.FirstPlane + p)
			gets[i].Parts[p] = engine.Part{Plane: e.names[b.FirstPlane+p], Spans: [][]byte{rest[:to-from]}}
			rest = rest[to-from:]
		}
	}
	out := make([]Answer, len(blocks))
	for i, r := range e.namespace.Get(ctx, gets, engine.GetOptions{WaitForDevice: !e.shape.Bounce}) {
		out[i] = Answer{OK: r.Status == engine.StatusOK, Status: r.Status.String(), Err: r.Err}
	}
	return out
}

// Match implements Store.
func (e *engineStore) Match(ctx context.Context, hashes [][]byte) (int, error) {
	lease, err := e.namespace.Match(ctx, hashes)
	if err != nil {
		return 0, err
	}
	defer lease.Release()
	return lease.Blocks(), nil
}

// NewBuffer implements Store.
func (e *engineStore) NewBuffer(sizeBytes int) ([]byte, func(), error) {
	b, err := e.store.NewBuffer(sizeBytes)
	if err != nil {
		return nil, nil, err
	}
	return b.Bytes(), b.Free, nil
}

// Path implements Store.
func (e *engineStore) Path() PathInfo {
	s := e.store.Stats()
	p := PathInfo{Name: s.PathRead, Reader: &ReaderCount{RequestSeconds: s.ReadDepth.Seconds()}}
	if r := e.store.ProbeReport(); r != nil && string(r.Chosen) == p.Name {
		p.Reason = r.ChosenBecause
	}
	return p
}

// Flush implements Store.
func (e *engineStore) Flush(ctx context.Context) error { return e.store.Flush(ctx) }

// Close implements Store.
func (e *engineStore) Close(ctx context.Context) error { return e.store.Close(ctx) }
