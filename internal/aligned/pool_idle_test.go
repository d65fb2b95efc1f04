package aligned

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleMemoryGoesBack: what was not in use for an interval is returned,
// down to the low-water mark, without a call; and then the pool is quiet.
func TestIdleMemoryGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const huge = int64(HugePageBytes)
		p := New(Options{LimitBytes: 64 << 20, KeepBytes: 2 * huge})
		defer mustClose(t, p)
		var out []*Buffer
		for range 8 {
			out = append(out, mustGet(t, p, HugePageBytes))
		}
		for _, b := range out[1:] {
			b.Free()
		}
		checkStats(t, p, huge, 7*huge)
		time.Sleep(defaultIdleInterval + time.Second) // a first look: all of it was in use
		checkStats(t, p, huge, 7*huge)
		b := mustGet(t, p, 2*HugePageBytes)
		b.Free()
		time.Sleep(defaultIdleInterval) // the peak since was three
		checkStats(t, p, huge, 2*huge)
		time.Sleep(defaultIdleInterval)
		checkStats(t, p, huge, huge)
		out[0].Free()
		time.Sleep(time.Hour)
		checkStats(t, p, 0, 2*huge)
		if m := p.Memory(); m.ReturnedTotalBytes != uint64(6*huge) {
			t.Errorf("%d bytes went back in all", m.ReturnedTotalBytes)
		}
		p.mu.Lock()
		if p.armed {
			t.Error("looks for idle memory go on at the low-water mark")
		}
		p.mu.Unlock()
	})
}

// TestIdleKeepsWhatIsInUse: the mark is of all the pool's memory, so a busy
// pool keeps nothing besides, and bytes in use stay as they are.
func TestIdleKeepsWhatIsInUse(t *testing.T) {
	p := New(Options{LimitBytes: 32 << 20, KeepBytes: -1, IdleInterval: -1})
	defer mustClose(t, p)
	a, b := mustGet(t, p, HugePageBytes), mustGet(t, p, 8<<20)
	mark(a.Bytes(), 7)
	b.Free()
	p.trimIdle()
	p.trimIdle()
	checkStats(t, p, HugePageBytes, 0)
	if !marked(a.Bytes(), 7) {
		t.Error("bytes in use changed")
	}
	b = mustGet(t, p, 8<<20)
	for i, c := range b.Bytes() {
		if c != 0 {
			t.Fatalf("byte %d of returned memory is %d", i, c)
		}
	}
	b.Free()
	a.Free()
	p.trimIdle()
	p.trimIdle()
	if m := p.Memory(); m.Slabs != 0 || m.MappedBytes != 0 {
		t.Errorf("an empty slab stays mapped: %+v", m)
	}
}
