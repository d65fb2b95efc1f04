package load

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"golang.org/x/sys/unix"
)

// smallDisk is a file system of so many bytes, in memory.
func smallDisk(t *testing.T, sizeBytes string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+sizeBytes); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// takeAll fills a file system to the last byte.
func takeAll(t *testing.T, path string) (full bool) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Is(err, syscall.ENOSPC)
	}
	defer f.Close()
	for p := make([]byte, 64<<10); ; {
		switch _, err := f.Write(p); {
		case errors.Is(err, syscall.ENOSPC):
			return true
		case err != nil:
			t.Error(err)
			return false
		}
	}
}

// TestFaultServerDiskFull: somebody else takes the last byte of the disk under
// a server at work, and gives it back. Every SET is answered +OK, no byte is
// wrong or stale, and afterwards values are stored again. Where there is no room
// even for the record of a removal, the server hides what a shed SET was to
// replace.
func TestFaultServerDiskFull(t *testing.T) {
	tally := faulttest.New(t)
	disk := smallDisk(t, "192m")
	c := childConfig{Dir: filepath.Join(disk, "store"), Socket: filepath.Join(t.TempDir(), "s"), Store: largeStore(), Server: smallServer()}
	c.Store.HostCacheBytes, c.Store.CapacityBytes = 0, 160<<20
	k := startChild(t, c)
	fault := tally.Try("ENOSPC on a disk that others filled")
	stop := background(t, Config{Servers: []string{"unix:" + c.Socket}, Connections: 16, Keys: 64, ValueBytes: []int{64, 5000, 200_000}})
	k.settles("values are stored", func(s childState) bool { return s.Server.Kinds["plain"].Stored > 30 })
	filler := filepath.Join(disk, "filler")
	full := false
	k.settles("values are shed", func(s childState) bool {
		// What the store gives back by evicting is taken as well.
		full = takeAll(t, filler) || full
		p := s.Server.Kinds["plain"]
		return p.Shed+p.PutFailed > 30
	})
	if full {
		fault.Fire()
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	before := k.state().Server.Kinds["plain"].Stored
	k.settles("values are stored again", func(s childState) bool { return s.Server.Kinds["plain"].Stored > before+30 })
	r := stop()
	tally.WrongBytes(r.Wrong)
	st := k.state().Server
	t.Logf("%d values right, %d were hidden", r.Right, st.HiddenTotal)
	if r.Bad() == 0 && r.Broken == 0 && r.Commands["SET"].Errors == 0 && r.Right > 0 {
		fault.Survive()
	} else {
		t.Errorf("%+v", r)
	}
	k.stop()
}

// TestFaultServerFrozen: a server stops for a while, as a machine does that is
// out of memory or being moved; clients wait, and nothing is wrong then.
func TestFaultServerFrozen(t *testing.T) {
	tally := faulttest.New(t)
	dir := t.TempDir()
	c := childConfig{Dir: filepath.Join(dir, "store"), Socket: filepath.Join(dir, "s"), Store: largeStore(), Server: smallServer()}
	k := startChild(t, c)
	fault := tally.Try("SIGSTOP, later SIGCONT")
	stop := background(t, Config{Servers: []string{"unix:" + c.Socket, k.first.Address}, Connections: 16, Slow: 2, Keys: 64, ValueBytes: []int{64, 5000, 200_000}})
	k.settles("clients work", works(30))
	if err := k.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	fault.Fire()
	time.Sleep(200 * time.Millisecond)
	if err := k.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	now := k.state().Server.Commands
	k.settles("clients work again", works(max(now["SET"].Calls, now["GET"].Calls)+30))
	r := stop()
	tally.WrongBytes(r.Wrong)
	if sound(t, r) && r.Broken == 0 {
		fault.Survive()
	}
	k.stop()
}
