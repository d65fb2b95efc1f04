package gputest

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
)

// TestReadFaults: what each fault does to the result and to the memory.
func TestReadFaults(t *testing.T) {
	const n, at = 16384, 8192 // read n bytes at at, into the middle of the buffer
	blank := bytes.Repeat([]byte{0xDD}, n)
	for _, c := range []struct {
		spec string
		n    int64                             // counted
		code int                               // of the error, if one is wanted
		mem  func(content []byte) []byte       // what the destination holds
		side func(beside, content []byte) bool // what must hold behind it
	}{
		{"cuFileRead=5010@2", n, 0, func(c []byte) []byte { return c[at:][:n] }, nil}, // not this call
		{"cuFileRead=5010", 0, 5010, nil, nil},
		{"cuFileRead=-5010", 0, 5010, nil, nil},
		{"cuFileRead=-5", 0, int(syscall.EIO), nil, nil},
		{"cuFileRead=errno:5", 0, int(syscall.EIO), nil, nil},
		{"cuFileRead=errno:5027", 0, 5027, nil, nil},
		{"cuFileRead=short", n / 2, 0, func(c []byte) []byte { return append(bytes.Clone(c[at:][:n/2]), blank[n/2:]...) }, nil},
		{"cuFileRead=zero", 0, 0, nil, nil},
		{"cuFileRead=over", 0, 5030, func(c []byte) []byte { return c[at:][:n] }, nil},
		{"cuFileRead=stale", n, 0, nil, nil},
		{"cuFileRead=half", n, 0, func(c []byte) []byte { return append(bytes.Clone(c[at:][:n/2]), blank[n/2:]...) }, nil},
		{"cuFileRead=shift", n, 0, func(c []byte) []byte { return c[at+4096:][:n] }, nil},
		{"cuFileRead=flip", n, 0, func(c []byte) []byte { b := bytes.Clone(c[at:][:n]); b[n/2] ^= 0x10; return b }, nil},
		{"cuFileRead=neighbour", n, 0, nil, func(beside, c []byte) bool { return bytes.Equal(beside, c[at:][:n]) }},
		{"cuFileRead=late/1", n, 0, func(c []byte) []byte { return c[at:][:n] }, nil}, // not this device
		{"cuFileRead=719", 0, 719, nil, nil},
		{"cuFileRead=lost:700", 0, 5011, nil, nil},
	} {
		t.Run(c.spec, func(t *testing.T) {
			r := newRig(t)
			f, h, content := r.file(rigBytes)
			r.d.Configure(c.spec)
			got, err := f.Read(r.c, h, r.a, n, at, 4096)
			var e *driver.Error
			if c.code != 0 && (!errors.As(err, &e) || e.Code != c.code) || c.code == 0 && err != nil {
				t.Fatalf("error %v, want code %d", err, c.code)
			}
			if got != c.n {
				t.Errorf("%d bytes counted, want %d", got, c.n)
			}
			want := blank
			if c.mem != nil {
				want = c.mem(content)
			}
			if !bytes.Equal(r.d.Bytes(r.a+4096, n), want) {
				t.Error("the destination holds something else")
			}
			if beside := r.d.Bytes(r.a+4096+n, n); c.side == nil && !bytes.Equal(beside, blank) || c.side != nil && !c.side(beside, content) {
				t.Error("the memory behind holds something else")
			}
			if !bytes.Equal(r.d.Bytes(r.a, 4096), blank[:4096]) {
				t.Error("the memory before was written")
			}
		})
	}
}

// TestLateRead: the bytes come after the call returned.
func TestLateRead(t *testing.T) {
	r := newRig(t)
	f, h, content := r.file(rigBytes)
	r.d.Configure("cuFileRead=late@1+1,late=100000")
	n, err := f.Read(r.c, h, r.a, 4096, 0, 0)
	r.must(err)
	before := r.d.Bytes(r.a, 4096)
	r.d.Idle()
	if n != 4096 || bytes.Equal(before, content[:4096]) || !bytes.Equal(r.d.Bytes(r.a, 4096), content[:4096]) {
		t.Error("the bytes did not come late")
	}
}

// TestReadEnd: a read over the end of the file is short; behind it, empty.
func TestReadEnd(t *testing.T) {
	r := newRig(t)
	f, h, content := r.file(5000)
	n, err := f.Read(r.c, h, r.a, 8192, 0, 0)
	if err != nil || n != 5000 || !bytes.Equal(r.d.Bytes(r.a, 5000), content) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n, err := f.Read(r.c, h, r.a, 4096, 8192, 0); err != nil || n != 0 {
		t.Errorf("behind the end: %d bytes, %v", n, err)
	}
	if n, err := f.Read(r.c, h, r.a, 100, 77, 33); err != nil || n != 100 || !bytes.Equal(r.d.Bytes(r.a+33, 100), content[77:177]) {
		t.Errorf("unaligned: %d bytes, %v", n, err)
	}
}

// TestCopyFaults: copies that fail without saying so.
func TestCopyFaults(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		want func(b []byte)
	}{
		{Stale, func(b []byte) { copy(b, bytes.Repeat([]byte{0xDD}, len(b))) }},
		{Half, func(b []byte) { copy(b[len(b)/2:], bytes.Repeat([]byte{0xDD}, len(b)/2)) }},
		{Flip, func(b []byte) { b[len(b)/2] ^= 0x10 }},
	} {
		r := newRig(t)
		copy(r.host, randomBytes(rigBytes))
		r.d.Set("cuMemcpyHtoDAsync_v2", Fault{Kind: c.kind, From: 2, Count: 1})
		want := bytes.Clone(r.host)
		for i := range 3 {
			p := r.a
			if i == 1 {
				p = r.b
			}
			r.must(r.c.CopyHtoDAsync(p, r.pinned(), rigBytes, r.s))
		}
		r.must(r.c.StreamSynchronize(r.s))
		if !bytes.Equal(r.d.Bytes(r.a, rigBytes), want) {
			t.Errorf("%s: another copy failed", c.kind)
		}
		c.want(want)
		if !bytes.Equal(r.d.Bytes(r.b, rigBytes), want) || r.d.Fired("cuMemcpyHtoDAsync_v2") != 1 {
			t.Errorf("%s: the second copy did not fail that way", c.kind)
		}
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	f, _, _ := r.file(4096)
	r.d.Configure("cuMemAlloc_v2=limit:262144,cuFileBufRegister=limit:131072,cuMemHostRegister_v2=limit:65536")
	var e *driver.Error
	p, err := r.c.MemAlloc(131072)
	r.must(err)
	if _, err := r.c.MemAlloc(1); !errors.As(err, &e) || e.Code != 2 {
		t.Errorf("beyond the limit: %v", err)
	}
	if err := f.BufRegister(r.c, p, 131072); !errors.As(err, &e) || e.Code != 5036 {
		t.Errorf("beyond the limit: %v", err)
	}
	r.must(f.BufRegister(r.c, p, 65536))
	if err := r.c.HostRegister(r.pinned(), 1); !errors.As(err, &e) || e.Code != 712 {
		t.Errorf("registered already: %v", err)
	}
	if r.d.Fired("cuMemAlloc_v2") != 1 || r.d.Fired("cuFileBufRegister") != 1 {
		t.Error("refusals are not counted")
	}
}

// TestRoutes: the counters say which way the bytes went, in both layouts.
func TestRoutes(t *testing.T) {
	for _, c := range []struct {
		spec             string
		p2p, nvfs, posix uint64
		major            int
	}{
		{"route=nvfs,cufile=1190", 0, 1, 0, 2}, {"route=p2p,cufile=1190", 1, 0, 0, 0}, {"route=none,cufile=1190", 0, 0, 1, 0},
		{"route=nvfs,cufile=1150", 0, 1, 0, 2}, {"route=none,cufile=1170", 0, 0, 1, 0}, {"route=p2p,cufile=1180", 1, 0, 0, 0},
	} {
		r := newRig(t)
		r.d.Configure(c.spec)
		f, h, _ := r.file(rigBytes)
		_, err := f.Read(r.c, h, r.a, 8192, 4096, 0)
		r.must(err)
		info, err := r.dr.Device(0)
		r.must(err)
		got, err := f.RouteCounters(info.UUID)
		want := driver.RouteCounters{ReadBytes: 8192, Reads: 1, P2PReads: c.p2p, NvfsReads: c.nvfs, PosixReads: c.posix}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", c.spec, got, err, want)
		}
		if _, err := f.RouteCounters([16]byte{1}); !errors.Is(err, driver.ErrCounters) {
			t.Errorf("%s: counters of a GPU that is not there: %v", c.spec, err)
		}
		props, err := f.Properties()
		if err != nil || props.NvfsMajor != c.major || props.ControlFlags>>driver.ControlCompat&1 != 1 || props.MaxDirectIOKB != 16384 {
			t.Errorf("%s: %+v, %v", c.spec, props, err)
		}
	}
	r := newRig(t)
	r.d.Configure("cufile=1140")
	f, _, _ := r.file(4096)
	if _, err := f.RouteCounters([16]byte{}); !errors.Is(err, driver.ErrCounters) {
		t.Errorf("an old version: %v", err)
	}
}

// TestStrict: with compatibility mode off and no direct way, cuFile does not open.
func TestStrict(t *testing.T) {
	r := newRig(t)
	r.d.Configure("route=none")
	f, err := r.dr.CuFile()
	r.must(err)
	r.must(f.SetParameter(driver.AllowCompatMode, false))
	var e *driver.Error
	if err := f.DriverOpen(r.c); !errors.As(err, &e) || e.Code != 5001 {
		t.Errorf("strict: %v", err)
	}
	r.must(f.SetParameter(driver.AllowCompatMode, true))
	r.must(f.DriverOpen(r.c))
	if err := f.SetParameter(driver.AllowCompatMode, false); !errors.As(err, &e) || e.Code != 5026 {
		t.Errorf("after the opening: %v", err)
	}
	if on, err := f.Parameter(driver.AllowCompatMode); !on || err != nil {
		t.Errorf("read back: %v, %v", on, err)
	}
	r.must(f.DriverClose(r.c))
}
