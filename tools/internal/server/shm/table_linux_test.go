package shm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testHost(t testing.TB, l Limits) *Host {
	t.Helper()
	s, err := engine.Open(filepath.Join(t.TempDir(), "store"), engine.Options{CapacityBytes: 96 << 20, MaxBlockBytes: 1 << 20, SegmentBytes: 4 << 20, FreeFloorBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return NewHost(s, l)
}

func memfd(t testing.TB, sizeBytes int64, flags int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("shm-test", unix.MFD_CLOEXEC|flags)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	if err := f.Truncate(sizeBytes); err != nil {
		t.Fatal(err)
	}
	return f
}

// reopened is a descriptor of the same file, opened in another way.
func reopened(t testing.TB, f *os.File, flags int) *os.File {
	t.Helper()
	defer f.Close()
	other, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

func opened(t testing.TB, name string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAddKinds: what is mapped and what is refused, with the reason.
func TestAddKinds(t *testing.T) {
	h := testHost(t, Limits{})
	onDisk := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(onDisk, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	shm := filepath.Join("/dev/shm", fmt.Sprintf("sealstone-test-%d", os.Getpid()))
	if err := os.WriteFile(shm, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(shm)
	sealed := func(seals int) func() *os.File {
		return func() *os.File {
			f := memfd(t, 8192, unix.MFD_ALLOW_SEALING)
			if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	pipe := func() *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		return r
	}
	socket := func() *os.File {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fds[1])
		return os.NewFile(uintptr(fds[0]), "socket")
	}
	for _, c := range []struct {
		name   string
		file   func() *os.File
		size   int64
		reason string // "": it is mapped
	}{
		{"memfd", func() *os.File { return memfd(t, 8192, 0) }, 8192, ""},
		{"a part of it", func() *os.File { return memfd(t, 8192, 0) }, 100, ""},
		{"sealed memfd", sealed(unix.F_SEAL_SHRINK | unix.F_SEAL_GROW), 8192, ""},
		{"/dev/shm", func() *os.File { return opened(t, shm, os.O_RDWR) }, 8192, ""},
		{"longer than the file", func() *os.File { return memfd(t, 8192, 0) }, 8193, "has 8192 bytes"},
		{"no bytes", func() *os.File { return memfd(t, 8192, 0) }, 0, "0 bytes"},
		{"negative", func() *os.File { return memfd(t, 8192, 0) }, -1, "-1 bytes"},
		{"beyond everything", func() *os.File { return memfd(t, 8192, 0) }, 1 << 62, "are allowed"},
		{"sealed against writes", sealed(unix.F_SEAL_WRITE), 8192, "mmap"},
		{"read-only", func() *os.File { return reopened(t, memfd(t, 8192, 0), os.O_RDONLY) }, 8192, "O_RDWR"},
		{"write-only", func() *os.File { return reopened(t, memfd(t, 8192, 0), os.O_WRONLY) }, 8192, "O_RDWR"},
		{"only a path", func() *os.File { return reopened(t, memfd(t, 8192, 0), unix.O_PATH) }, 8192, "F_GET_SEALS"},
		{"file on disk", func() *os.File { return opened(t, onDisk, os.O_RDWR) }, 8192, "files on disks"},
		{"pipe", pipe, 8192, "pipes"},
		{"socket", socket, 8192, "F_GET_SEALS"},
		{"directory", func() *os.File { return opened(t, "/dev/shm", os.O_RDONLY) }, 8192, "directories"},
		{"device", func() *os.File { return opened(t, "/dev/zero", os.O_RDWR) }, 8192, "devices"},
		{"proc", func() *os.File { return opened(t, "/proc/self/status", os.O_RDONLY) }, 8192, "F_GET_SEALS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := h.NewTable(os.Geteuid())
			defer table.Close()
			f := c.file()
			id, err := table.Add(f, c.size)
			switch {
			case c.reason == "" && (err != nil || id == 0):
				t.Errorf("refused: %v", err)
			case c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason)):
				t.Errorf("region %d, %v: want %q", id, err, c.reason)
			}
			if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("the descriptor was not closed: %v", err)
			}
		})
	}
	if st := h.Stats(); st.Regions != 0 || st.Bytes != 0 || st.Refused == 0 {
		t.Errorf("afterwards: %+v", st)
	}
}

// TestAddOwner: only files of the peer's user or of the server's.
func TestAddOwner(t *testing.T) {
	h := testHost(t, Limits{})
	for _, c := range []struct {
		owner, peer int
		ok          bool
	}{
		{os.Geteuid(), os.Geteuid(), true}, {os.Geteuid(), 1000, true}, {1000, 1000, true}, {1000, AnyUser, true},
		{1000, 1001, false}, {1000, os.Geteuid(), false},
	} {
		f := memfd(t, 4096, 0)
		if c.owner != os.Geteuid() {
			if err := f.Chown(c.owner, -1); err != nil {
				if os.Geteuid() == 0 {
					t.Fatal(err)
				}
				f.Close()
				continue // only root gives files away
			}
		}
		table := h.NewTable(c.peer)
		if _, err := table.Add(f, 4096); (err == nil) != c.ok {
			t.Errorf("file of %d, peer %d: %v", c.owner, c.peer, err)
		}
		table.Close()
	}
}

func TestLimits(t *testing.T) {
	h := testHost(t, Limits{RegionsMax: 3, BytesMax: 40960, HostRegionsMax: 5, HostBytesMax: 1 << 20})
	a, b := h.NewTable(AnyUser), h.NewTable(AnyUser)
	add := func(t2 *Table, size int64) (int64, error) { return t2.Add(memfd(t, size, 0), size) }
	var ids []int64
	for range 3 {
		id, err := add(a, 4096)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for range 1000 { // floods cost nothing that stays
		if _, err := add(a, 4096); !errors.Is(err, ErrLimit) {
			t.Fatalf("a fourth region: %v", err)
		}
	}
	if !a.Remove(ids[0]) || a.Remove(ids[0]) || a.Remove(12345) {
		t.Error("Remove does not tell what there is")
	}
	if _, err := add(a, 40960-2*4096+1); !errors.Is(err, ErrLimit) {
		t.Errorf("too many bytes: %v", err)
	}
	if id, err := add(a, 40960-2*4096); err != nil || id <= ids[2] {
		t.Errorf("as many as may be: region %d, %v", id, err)
	}
	for range 2 {
		if _, err := add(b, 4096); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := add(b, 4096); !errors.Is(err, ErrLimit) {
		t.Errorf("more than all may have: %v", err)
	}
	a.Close()
	a.Close()
	if _, err := add(a, 4096); err == nil {
		t.Error("a closed table takes regions")
	}
	if st := h.Stats(); st.Regions != 2 || st.Bytes != 8192 {
		t.Errorf("%+v", st)
	}
	b.Close()
	if st := h.Stats(); st.Regions != 0 || st.Bytes != 0 {
		t.Errorf("%+v", st)
	}
}

// TestResolve holds Resolve to arithmetic: the right memory, and no byte
// outside its region.
func TestResolve(t *testing.T) {
	h := testHost(t, Limits{})
	table := h.NewTable(AnyUser)
	defer table.Close()
	sizes := map[int64]int64{}
	for _, size := range []int64{1, 4096, 10000} {
		f := memfd(t, size, 0)
		for at := range size {
			if _, err := f.WriteAt([]byte{byte(size + at*31)}, at); err != nil {
				t.Fatal(err)
			}
		}
		id, err := table.Add(f, size)
		if err != nil {
			t.Fatal(err)
		}
		sizes[id] = size
	}
	rapid.Check(t, func(t *rapid.T) {
		var text []string
		good := true
		var want []byte
		for range rapid.IntRange(1, 5).Draw(t, "spans") {
			id := rapid.Int64Range(0, 4).Draw(t, "region")
			edge := rapid.SampledFrom([]int64{0, 1, 4095, 4096, 9999, 10000, 1 << 40, 1<<63 - 1})
			off, n := edge.Draw(t, "offset"), max(edge.Draw(t, "length"), 1)
			size, known := sizes[id]
			if !known || off > size || n > size-off {
				good = false
			} else {
				for at := off; at < off+n; at++ {
					want = append(want, byte(size+at*31))
				}
			}
			text = append(text, fmt.Sprintf("%d:%d:%d", id, off, n))
		}
		spans, release, err := table.Resolve([]byte(strings.Join(text, ",")))
		if (err == nil) != good || err != nil && !errors.Is(err, ErrSpans) {
			t.Fatalf("%v: %v", text, err)
		}
		if err != nil {
			return
		}
		defer release()
		var got []byte
		for _, s := range spans {
			got = append(got, s...)
			if cap(s) != len(s) {
				t.Fatal("a span can be grown")
			}
		}
		if string(got) != string(want) {
			t.Fatalf("%v: other bytes", text)
		}
	})
	if table.InUse() {
		t.Error("somebody uses the table")
	}
	for id := range sizes {
		if r := table.regions[id]; r.uses != 0 {
			t.Errorf("region %d is in use %d times", id, r.uses)
		}
	}
}

// TestEndWhileUsed: neither Remove nor Close unmaps what is in use.
func TestEndWhileUsed(t *testing.T) {
	for _, end := range []string{"remove", "close"} {
		h := testHost(t, Limits{})
		table := h.NewTable(AnyUser)
		id, err := table.Add(memfd(t, 8192, 0), 8192)
		if err != nil {
			t.Fatal(err)
		}
		text := []byte(fmt.Sprintf("%d:0:10,%d:20:30", id, id))
		spans, release, err := table.Resolve(text)
		_, release2, err2 := table.Resolve(text)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if !table.InUse() {
			t.Errorf("%s: nobody uses it", end)
		}
		if end == "remove" {
			table.Remove(id)
		} else {
			table.Close()
		}
		spans[0][0], spans[1][29] = 1, 2 // would fault
		if _, _, err := table.Resolve(text); err == nil {
			t.Errorf("%s: the region is still there", end)
		}
		release()
		release() // is nothing
		spans[0][0] = 3
		if h.Stats().Regions != 1 {
			t.Errorf("%s: unmapped while somebody uses it", end)
		}
		release2()
		if st := h.Stats(); st.Regions != 0 || st.Bytes != 0 {
			t.Errorf("%s: %+v", end, st)
		}
		table.Close()
	}
}

// TestTableFromAllSides: adding, resolving and ending at the same time.
func TestTableFromAllSides(t *testing.T) {
	h := testHost(t, Limits{RegionsMax: 8})
	table := h.NewTable(AnyUser)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 50 {
				id, err := table.Add(memfd(t, 8192, 0), 8192)
				if err != nil && !errors.Is(err, ErrLimit) && !errors.Is(err, errClosed) {
					t.Error(err)
				}
				spans, release, err := table.Resolve([]byte(fmt.Sprintf("%d:%d:100", id, i)))
				if w == 3 && i == 40 {
					table.Close()
				}
				table.Remove(id)
				if err == nil {
					spans[0][99]++
					release()
				}
			}
		})
	}
	all.Wait()
	if st := h.Stats(); st.Regions != 0 || st.Bytes != 0 {
		t.Errorf("%+v", st)
	}
}

func TestPeerUID(t *testing.T) {
	dir, err := os.MkdirTemp("", "ss")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := PeerUID(peer); err != nil || uid != os.Geteuid() {
		t.Errorf("%d %v", uid, err)
	}
	peer.Close()
	if _, err := PeerUID(peer); err == nil {
		t.Error("a closed socket has a peer")
	}
}
