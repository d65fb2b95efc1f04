package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
)

// stage is what the scenarios are played on: a store in a directory of its own,
// a GPU, and memory there for one document.
type stage struct {
	device *device
	dir    string
	blocks int // of a document
	during time.Duration

	gpu       *gpu.Device
	store     *engine.Store
	space     *engine.Namespace
	bench     *bench
	arena     driver.DevicePtr
	host      []byte // pinned, of a document
	documents [scenarioDocuments][]byte

	played []Scenario
	speeds []Speed
	route  string
}

func (s *stage) open(ctx context.Context, d *driver.Driver, v *gpu.Verdict) (err error) {
	if s.gpu, err = gpu.OpenDevice(d, s.device.info.Ordinal, gpu.Options{}); err != nil {
		return err
	}
	s.route = "host bounce only"
	if v != nil && v.State == gpu.VerdictProven {
		st := s.gpu.AllowDirect(s.dir, *v).Status()
		s.route = string(st.State)
		if st.Reason != "" {
			s.route += ": " + st.Reason
		}
	}
	if err := s.openStore(ctx); err != nil {
		return errors.Join(err, s.close(ctx))
	}
	if err := s.openMemory(); err != nil {
		return errors.Join(err, s.close(ctx))
	}
	return nil
}

func (s *stage) bytes() int64 { return int64(s.blocks) * scenarioBlockBytes }

func (s *stage) openStore(ctx context.Context) (err error) {
	if s.store, err = engine.Open(s.dir, engine.Options{
		CapacityBytes: 2*scenarioDocuments*s.bytes() + 1<<29, MaxBlockBytes: scenarioBlockBytes, ScrubCycle: -1,
	}); err != nil {
		return err
	}
	s.space, err = s.store.Namespace(ctx, layout.Opaque("gpucheck"), "gpucheck", engine.NamespaceOptions{GPUDirect: true})
	return err
}

func (s *stage) openMemory() (err error) {
	if s.bench, err = newBench(s.device.context); err != nil {
		return err
	}
	if s.arena, err = s.bench.device(s.bytes()); err != nil {
		return err
	}
	s.host, err = s.bench.pinned(s.bytes())
	return err
}

// close gives back what the stage has. The store ends before the GPU that it
// reads into.
func (s *stage) close(ctx context.Context) error {
	var errs []error
	if s.store != nil {
		errs = append(errs, s.store.Close(ctx))
	}
	if s.bench != nil {
		errs = append(errs, s.bench.close())
	}
	if s.gpu != nil {
		errs = append(errs, s.gpu.Close(ctx))
	}
	s.store, s.bench, s.gpu = nil, nil, nil
	return errors.Join(errs...)
}

// put fills device memory with a new document and stores it from there.
func (s *stage) put(ctx context.Context, doc int) error {
	s.documents[doc] = make([]byte, s.bytes())
	fill(s.documents[doc])
	copy(s.host, s.documents[doc])
	if err := s.bench.toDevice(s.arena, s.host); err != nil {
		return err
	}
	blocks := make([]engine.DevicePutBlock, s.blocks)
	for i := range blocks {
		blocks[i] = engine.DevicePutBlock{Hash: hashOf(doc, i), Planes: []engine.DevicePlane{{Name: "value", Spans: s.span(i)}}}
	}
	for i, r := range s.space.PutFromDevice(ctx, s.gpu, blocks, engine.PutOptions{}) {
		if r.Status != engine.StatusOK {
			return fmt.Errorf("storing block %d of document %d: %w", i, doc, r.Err)
		}
	}
	return nil
}

// span is where block i of a document lies on the device.
func (s *stage) span(i int) []gpu.Span {
	return []gpu.Span{{Ptr: s.arena + driver.DevicePtr(i*scenarioBlockBytes), LengthBytes: scenarioBlockBytes}}
}

// get reads a document into device memory.
func (s *stage) get(ctx context.Context, doc int, hostOnly bool) []engine.DeviceGetResult {
	blocks := make([]engine.DeviceGetBlock, s.blocks)
	for i := range blocks {
		blocks[i] = engine.DeviceGetBlock{Hash: hashOf(doc, i), Parts: []engine.DevicePart{{Plane: "value", Spans: s.span(i)}}}
	}
	return s.space.GetToDevice(ctx, s.gpu, blocks, engine.DeviceGetOptions{HostOnly: hostOnly})
}

// poison fills the document's device memory.
func (s *stage) poison(v byte) error {
	return errors.Join(s.bench.c.MemsetD8Async(s.arena, v, s.bytes(), s.bench.stream), s.bench.sync())
}

// memory is the document's device memory as it is now, until it is called again.
func (s *stage) memory() ([]byte, error) {
	clear(s.host)
	return s.host, s.bench.toHost(s.host, s.arena)
}

// measure times the whole way from the store's files into device memory.
func (s *stage) measure(ctx context.Context) error {
	for _, way := range []struct {
		what     string
		hostOnly bool
	}{{"store to GPU, host bounce", true}, {"store to GPU, any path", false}} {
		speed, err := measure(ctx, way.what, s.bytes(), s.during, func() error {
			for _, r := range s.get(ctx, 0, way.hostOnly) {
				if r.Status != engine.StatusOK {
					return r.Err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", way.what, err)
		}
		s.speeds = append(s.speeds, speed)
	}
	return nil
}

// reopenDamaged closes the store, flips a bit of a block, and opens it again.
func (s *stage) reopenDamaged(ctx context.Context, block []byte) error {
	err := s.store.Close(ctx)
	s.store = nil
	if err != nil {
		return err
	}
	if err := flipStored(s.dir, block); err != nil {
		return fmt.Errorf("damage a block: %w", err)
	}
	return s.openStore(ctx)
}

// makeStores makes a directory for each device's store, which is also what its
// canary looks at: a verdict holds for one directory.
func makeStores(dir string, devices []*device) (map[string]string, error) {
	stores := map[string]string{}
	for _, d := range devices {
		path, err := os.MkdirTemp(dir, "store-")
		if err != nil {
			return nil, err
		}
		stores[d.uuid] = path
	}
	return stores, nil
}
