package reports_test

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/gputest"
)

const (
	docBlocks  = 4
	docBytes   = 96 << 10 // of a block: each plane ends within a chunk
	cacheSlots = 8        // blocks that the inference engine keeps on the GPU
)

// kvCache is the cache of an inference engine on the GPU: slots that are used
// again for other blocks, the oldest first.
type kvCache struct {
	s     *storeRig
	d     *deviceRig
	slots []*slot
	next  int
	// computed and loaded count blocks; every one of them was looked at.
	computed, loaded int
	refused          []engine.DeviceGetResult
}

type slot struct {
	k, v gpu.Span
	id   int
}

func newCache(s *storeRig, d *deviceRig) *kvCache {
	c := &kvCache{s: s, d: d}
	for range cacheSlots {
		c.slots = append(c.slots, &slot{k: d.span(docBytes / 2), v: d.span(docBytes / 2), id: -1})
	}
	return c
}

// document asks for all blocks of a document, as a request does. What comes
// from the store is compared, what does not is computed and stored.
func (c *kvCache) document(doc int) {
	t := c.s.t
	t.Helper()
	for id := doc * docBlocks; id < (doc+1)*docBlocks; id++ {
		resident := false
		for _, s := range c.slots {
			resident = resident || s.id == id
		}
		if !resident {
			c.load(c.slots[c.next%cacheSlots], id)
			c.next++
		}
	}
}

func (c *kvCache) load(to *slot, id int) {
	t, data := c.s.t, contentOf(id, docBytes)
	before := c.d.x.Bytes(to.k.Ptr, docBytes/2)
	r := c.s.space.GetToDevice(context.Background(), c.d.dev, []engine.DeviceGetBlock{{Hash: hashOf(id), Parts: []engine.DevicePart{
		{Plane: "k", Spans: []gpu.Span{to.k}}, {Plane: "v", Spans: []gpu.Span{to.v}},
	}}}, engine.DeviceGetOptions{})[0]
	if to.id = id; r.Status == engine.StatusOK {
		c.loaded++
		if k, v := c.d.holds(to.k, data[:docBytes/2]), c.d.holds(to.v, data[docBytes/2:]); k != "whole" || v != "whole" {
			t.Fatalf("block %d is loaded by %s, and holds %s and %s", id, r.Path, k, v)
		}
		return
	}
	c.refused = append(c.refused, r)
	if got := c.d.holds(to.k, before); got != "whole" {
		t.Fatalf("block %d is %v, and the slot is not as it was: %s", id, r.Status, got)
	}
	c.computed++
	c.d.x.Write(to.k.Ptr, data[:docBytes/2])
	c.d.x.Write(to.v.Ptr, data[docBytes/2:])
	p := c.s.space.PutFromDevice(context.Background(), c.d.dev, []engine.DevicePutBlock{{Hash: hashOf(id), Planes: []engine.DevicePlane{
		{Name: "k", Spans: []gpu.Span{to.k}}, {Name: "v", Spans: []gpu.Span{to.v}},
	}}}, engine.PutOptions{})[0]
	if p.Status != engine.StatusOK {
		t.Fatal(p.Err)
	}
}

// TestReport1OtherDocument: a document, then enough others that nothing of it
// is left on the GPU, then the document again, on a machine where cuFile
// registers no file (5027) because there is no nvidia-fs. The field had the
// bytes of another request, and counted them as loaded.
func TestReport1OtherDocument(t *testing.T) {
	for name, verdict := range map[string]func(d *deviceRig, dir string) gpu.Verdict{
		// The canary has found out.
		"refused": func(_ *deviceRig, dir string) gpu.Verdict {
			return gpu.Verdict{State: gpu.VerdictRefused, Code: 5027, Name: "CU_FILE_INVALID_FILE_TYPE", Reason: "no file can be registered", Dir: dir}
		},
		// It passed, and since then nvidia-fs was unloaded.
		"passed": func(d *deviceRig, dir string) gpu.Verdict { return d.proven(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			defer checkLogs(t)
			s, x := newStore(t), gputest.Build(t)
			x.Set("cuFileHandleRegister", gputest.Fault{Code: 5027})
			d := openDevice(t, x, 0, func(o *gpu.Options) { o.Events = s.store.DeviceEvent })
			d.dev.AllowDirect(s.dir, verdict(d, s.dir))
			c := newCache(s, d)
			const others = 3
			for doc := range 1 + others {
				c.document(doc)
			}
			if c.loaded != 0 || c.computed != (1+others)*docBlocks {
				t.Fatalf("%d blocks computed, %d loaded", c.computed, c.loaded)
			}
			c.document(0)
			st := s.store.Stats()
			if c.loaded != docBlocks || st.HostBounce.Verified != docBlocks || st.CuFile.Verified != 0 || st.ServedBytes != docBlocks*docBytes {
				t.Errorf("%d blocks loaded, %d bytes served; host bounce %+v, direct %+v", c.loaded, st.ServedBytes, st.HostBounce, st.CuFile)
			}
			if tried := name == "passed"; (x.Fired("cuFileHandleRegister") > 0) != tried || (st.CuFile.FellBack > 0) != tried || st.CuFile.FellBack != st.CuFile.Attempted {
				t.Errorf("%d registrations failed, direct %+v", x.Fired("cuFileHandleRegister"), st.CuFile)
			}
			bounceBroken(t, s, c, x)
			d.close()
			x.Check(t)
		})
	}
}

// bounceBroken has no path left: the document is a miss, its place on the GPU
// is as it was, and nothing counts as loaded.
func bounceBroken(t *testing.T, s *storeRig, c *kvCache, x *gputest.Doubles) {
	t.Helper()
	for doc := 1; doc <= cacheSlots/docBlocks; doc++ {
		c.document(doc) // the first document is evicted again
	}
	before, loaded := s.store.Stats(), c.loaded
	c.refused = nil
	x.Set("cuMemcpyHtoDAsync_v2", gputest.Fault{Code: 1})
	c.document(0)
	x.Clear()
	st := s.store.Stats()
	if len(c.refused) != docBlocks || c.loaded != loaded {
		t.Errorf("%d blocks are refused, %d loaded", len(c.refused), c.loaded-loaded)
	}
	for _, r := range c.refused {
		if r.Status != engine.StatusMiss || r.Bytes != 0 || r.Path != engine.PathNone {
			t.Errorf("%+v", r)
		}
	}
	if st.ServedBytes != before.ServedBytes || st.HostBounce.Verified != before.HostBounce.Verified || st.CuFile.Verified != 0 ||
		st.HostBounce.Failed != before.HostBounce.Failed+docBlocks || st.GetStatus[engine.StatusOK] != before.GetStatus[engine.StatusOK] {
		t.Errorf("before %+v, %d bytes; then %+v, %d bytes", before.HostBounce, before.ServedBytes, st.HostBounce, st.ServedBytes)
	}
	if st.Quarantined != 0 {
		t.Errorf("%d blocks are quarantined for what the GPU did", st.Quarantined)
	}
}
