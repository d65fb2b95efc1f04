package gputest

import (
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/gpu/driver"
)

// TestViolations breaks each rule once: the doubles must see it, or no test that
// uses them shows anything.
func TestViolations(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		want string
	}{
		{"source written before the copy ran", func(r *rig) {
			r.hold()
			r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
			r.host[77] ^= 1
			r.d.Release()
		}, "written before it had run"},
		{"destination written before the copy ran", func(r *rig) {
			r.hold()
			r.must(r.c.CopyDtoHAsync(r.pinned(), r.a, rigBytes, r.s))
			r.host[77] ^= 1
			r.d.Release()
		}, "written before it had run"},
		{"source unmapped before the copy ran", func(r *rig) {
			m, err := unix.Mmap(-1, 0, rigBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
			r.must(err)
			r.must(r.c.HostRegister(unsafe.Pointer(&m[0]), rigBytes))
			r.hold()
			r.must(r.c.CopyHtoDAsync(r.a, unsafe.Pointer(&m[0]), rigBytes, r.s))
			r.must(unix.Munmap(m))
			r.d.Release()
		}, "unmapped before it had run"},
		{"source unpinned before the copy ran", func(r *rig) {
			r.hold()
			r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
			r.must(r.c.HostUnregister(r.pinned()))
			r.d.Release()
		}, "cuMemHostUnregister of memory that a stream still works on"},
		{"memory that is not pinned", func(r *rig) {
			r.must(r.c.HostUnregister(r.pinned()))
			r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
		}, "is not pinned"},
		{"freed while a copy is to come", func(r *rig) {
			r.hold()
			r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
			r.must(r.c.MemFree(r.a))
			r.d.Release()
		}, "cuMemFree_v2 of memory that a stream still works on"},
		{"use of freed memory", func(r *rig) {
			r.must(r.c.MemFree(r.a))
			if err := r.c.CopyHtoDAsync(r.a, r.pinned(), 1, r.s); err == nil {
				r.t.Error("a copy to freed memory was accepted")
			}
		}, "touches freed memory"},
		{"past the end of an allocation", func(r *rig) {
			if err := r.c.CopyHtoDAsync(r.a+1, r.pinned(), rigBytes, r.s); err == nil {
				r.t.Error("a copy past the end was accepted")
			}
		}, "leaves its allocation"},
		{"memory of another device", func(r *rig) {
			other, err := r.dr.RetainPrimary(1)
			r.must(err)
			p, err := other.MemAlloc(1)
			r.must(err)
			if err := r.c.MemsetD8Async(p, 0, 1, r.s); err == nil {
				r.t.Error("memory of another device was accepted")
			}
		}, "touches memory of device 1"},
		{"touched after the operation was complete", func(r *rig) {
			r.must(r.c.StreamSynchronize(r.s))
			r.d.Guard(r.a, rigBytes)
			r.must(r.c.MemsetD8Async(r.a+100, 1, 1, r.s))
		}, "after their operation had completed"},
		{"pinned memory read after the operation was complete", func(r *rig) {
			r.d.GuardHost(r.pinned(), 1)
			r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
		}, "after their operation had completed"},
		{"read into memory that a stream works on", func(r *rig) {
			f, h, _ := r.file(rigBytes)
			r.hold()
			r.must(r.c.MemsetD8Async(r.a, 0, rigBytes, r.s))
			_, err := f.Read(r.c, h, r.a, 4096, 0, 0)
			r.must(err)
			r.d.Release()
		}, "it is ordered with none"},
		{"two streams without an event", func(r *rig) {
			s2, err := r.c.StreamCreate()
			r.must(err)
			r.hold()
			r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
			r.must(r.c.CopyDtoDAsync(r.b+8192, r.a+4096, 1, s2))
			r.d.Release()
		}, "no event orders the two"},
		{"freed while registered", func(r *rig) {
			r.file(rigBytes)
			r.must(r.c.MemFree(r.a))
		}, "registered with cuFile"},
		{"freed while a read hangs in it", func(r *rig) {
			f, h, _ := r.file(rigBytes)
			r.d.Set("cuFileRead", Fault{Kind: Hang})
			done := make(chan error)
			go func() { _, err := f.Read(r.c, h, r.a, 4096, 0, 0); done <- err }()
			r.d.WaitHanging(1)
			r.must(f.BufDeregister(r.c, r.a))
			r.must(r.c.MemFree(r.a))
			r.d.Release()
			if <-done == nil {
				r.t.Error("the read succeeded")
			}
		}, "freed while cuFileRead was hanging in it"},
		{"freed before a late write", func(r *rig) {
			f, h, _ := r.file(rigBytes)
			r.d.Configure("cuFileRead=late,late=20000")
			_, err := f.Read(r.c, h, r.a, 4096, 0, 0)
			r.must(err)
			r.must(f.BufDeregister(r.c, r.a))
			r.must(r.c.MemFree(r.a))
		}, "had been freed"},
		{"released twice", func(r *rig) {
			f, h, _ := r.file(rigBytes)
			r.must(f.HandleDeregister(r.c, h))
			r.must(f.HandleDeregister(r.c, h))
		}, "not registered"},
		{"a destroyed stream", func(r *rig) {
			r.must(r.c.StreamDestroy(r.s))
			if err := r.c.StreamSynchronize(r.s); err == nil {
				r.t.Error("it was accepted")
			}
		}, "destroyed stream"},
		{"a released context", func(r *rig) {
			other, err := r.dr.RetainPrimary(1)
			r.must(err)
			r.must(other.Release())
			if _, err := other.MemAlloc(1); err == nil {
				r.t.Error("it was accepted")
			}
		}, "a context that nobody holds"},
		{"a context released with memory", func(r *rig) {
			other, err := r.dr.RetainPrimary(1)
			r.must(err)
			_, err = other.MemAlloc(1)
			r.must(err)
			r.must(other.Release())
		}, "was released with 1 bytes allocated"},
		{"the kernel reads outside", func(r *rig) {
			k := newKernel(r)
			k.launch(k.table([]piece{{r.a + rigBytes - 8, 9, 0}}), 1)
			if err := r.c.StreamSynchronize(r.s); err == nil {
				r.t.Error("the context survived")
			}
		}, "outside its memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Lenient())
			c.do(r)
			r.d.Idle()
			found := strings.Join(r.d.Violations(), "\n")
			if !strings.Contains(found, c.want) {
				t.Errorf("violations are %q, want %q", found, c.want)
			}
		})
	}
}

// TestNoViolation: what is right is not reported, and nothing is left.
func TestNoViolation(t *testing.T) {
	r := newRig(t)
	for range 20 {
		r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
		r.must(r.c.CopyDtoDAsync(r.b, r.a, rigBytes, r.s))
		r.must(r.c.StreamSynchronize(r.s))
		undo := r.d.Guard(r.b, rigBytes)
		r.host[3]++
		undo()
	}
	r.free()
	r.d.Check(t)
}

// TestLeaks lists what is outstanding, each thing once.
func TestLeaks(t *testing.T) {
	r := newRig(t)
	_, err := r.c.EventCreate()
	r.must(err)
	_, _, err = r.c.ModuleLoad(ptx)
	r.must(err)
	r.file(4096)
	leaks := strings.Join(r.d.Leaks(), "\n")
	for _, want := range []string{"65536 bytes of device memory", "65536 bytes of pinned memory", "a stream", "an event", "a module",
		"registered with cuFile", "descriptor", "cuFile opened 1 times", "primary context retained 1 times"} {
		if !strings.Contains(leaks, want) {
			t.Errorf("leaks are\n%s\nwant %q", leaks, want)
		}
	}
	if n := strings.Count(leaks, "\n") + 1; n != 10 {
		t.Errorf("%d leaks, want 10:\n%s", n, leaks)
	}
}

// TestOrder: streams keep their order, and events order streams.
func TestOrder(t *testing.T) {
	r := newRig(t)
	s2, err := r.c.StreamCreate()
	r.must(err)
	e, err := r.c.EventCreate()
	r.must(err)
	for i := range 50 {
		r.must(r.c.MemsetD8Async(r.a, byte(i), rigBytes, r.s))
		r.must(r.c.CopyDtoDAsync(r.b, r.a, rigBytes, r.s))
		r.must(r.c.EventRecord(e, r.s))
		r.must(r.c.StreamWaitEvent(s2, e))
		r.must(r.c.CopyDtoHAsync(r.pinned(), r.b, rigBytes, s2))
		r.must(r.c.StreamSynchronize(s2))
		for at, v := range r.host {
			if v != byte(i) {
				t.Fatalf("round %d: byte %d is %d", i, at, v)
			}
		}
	}
	r.must(r.c.EventDestroy(e))
	r.must(r.c.StreamDestroy(s2))
	r.free()
	r.d.Check(t)
}

// TestOrderThroughThird: an event orders two streams through a third as well.
func TestOrderThroughThird(t *testing.T) {
	r := newRig(t)
	streams := []driver.Stream{r.s}
	for range 2 {
		s, err := r.c.StreamCreate()
		r.must(err)
		streams = append(streams, s)
	}
	e, err := r.c.EventCreate()
	r.must(err)
	r.hold()
	r.must(r.c.CopyHtoDAsync(r.a, r.pinned(), rigBytes, r.s))
	for i := range 2 {
		r.must(r.c.EventRecord(e, streams[i]))
		r.must(r.c.StreamWaitEvent(streams[i+1], e))
	}
	r.must(r.c.CopyDtoDAsync(r.b, r.a, rigBytes, streams[2]))
	r.d.Release()
	r.must(r.c.StreamSynchronize(streams[2]))
	r.must(r.c.EventDestroy(e))
	r.must(r.c.StreamDestroy(streams[1]))
	r.must(r.c.StreamDestroy(streams[2]))
	r.free()
	r.d.Check(t)
}

// TestAsynchronous: work is not done when it is queued, so that a caller that
// does not wait is caught.
func TestAsynchronous(t *testing.T) {
	r := newRig(t)
	r.hold()
	e, err := r.c.EventCreate()
	r.must(err)
	if done, err := r.c.EventQuery(e); !done || err != nil {
		t.Errorf("an event that marks nothing: %v, %v", done, err)
	}
	r.must(r.c.MemsetD8Async(r.a, 9, rigBytes, r.s))
	r.must(r.c.EventRecord(e, r.s))
	if done, err := r.c.StreamQuery(r.s); done || err != nil {
		t.Errorf("the stream is %v, %v; want not done", done, err)
	}
	if done, err := r.c.EventQuery(e); done || err != nil {
		t.Errorf("the event is %v, %v; want not done", done, err)
	}
	if r.d.Bytes(r.a, 1)[0] != 0xDD {
		t.Error("the work is done already")
	}
	r.d.Release()
	r.must(r.c.EventSynchronize(e))
	if r.d.Bytes(r.a, 1)[0] != 9 {
		t.Error("the work is not done")
	}
	r.must(r.c.EventDestroy(e))
	r.free()
	r.d.Check(t)
}

var ptx = []byte(".version 6.3\n.target sm_75\n.visible .entry kv_xxh64_lanes() { ret; }\n.visible .entry kv_xxh64_finish() { ret; }\n")
