package vfs

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"golang.org/x/sys/unix"
)

func TestOpenOSRefuses(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	must(t, os.Symlink("dir", filepath.Join(dir, "link")))
	must(t, os.Symlink("absent", filepath.Join(dir, "dangling")))
	for _, c := range []struct {
		name string
		want error
	}{
		{"absent", fs.ErrNotExist},
		{"absent/below", fs.ErrNotExist},
		{"file", syscall.ENOTDIR},
		{"file/below", syscall.ENOTDIR},
		{"link", ErrSymlink},
		{"link/", ErrSymlink},
		{"dangling", ErrSymlink},
		{"dir", nil},
		{"dir/../dir/", nil},
	} {
		full := dir + "/" + c.name
		o, err := OpenOS(full)
		if !errors.Is(err, c.want) {
			t.Errorf("OpenOS(%s): %v, want %v", c.name, err, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), filepath.Clean(full)) {
			t.Errorf("OpenOS(%s): %q does not say where", c.name, err)
		}
		if o != nil {
			if o.Name() != filepath.Clean(full) {
				t.Errorf("Name() = %q", o.Name())
			}
			must(t, o.Close())
			wantErr(t, "second Close", o.Close(), fs.ErrClosed)
		}
	}
}

func TestOpenOSUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is unreadable to root")
	}
	dir := filepath.Join(t.TempDir(), "dir")
	must(t, os.Mkdir(dir, 0o000))
	_, err := OpenOS(dir)
	wantErr(t, "OpenOS", err, fs.ErrPermission)
}

func TestOSClosedRoot(t *testing.T) {
	o, err := OpenOS(t.TempDir())
	must(t, err)
	file := open(t, o, "f")
	must(t, o.Close())
	write(t, file, 0, "open files stay") // they need no root
	_, err = o.Open("f", 0)
	wantErr(t, "Open", err, fs.ErrClosed)
	_, err = o.List(".")
	wantErr(t, "List", err, fs.ErrClosed)
	_, err = o.Stat("f")
	wantErr(t, "Stat", err, fs.ErrClosed)
	_, err = o.Statfs()
	wantErr(t, "Statfs", err, fs.ErrClosed)
	_, err = o.Lock("f")
	wantErr(t, "Lock", err, fs.ErrClosed)
	wantErr(t, "MkdirAll", o.MkdirAll("a"), fs.ErrClosed)
	wantErr(t, "Rename", o.Rename("f", "g"), fs.ErrClosed)
	wantErr(t, "SyncDir", o.SyncDir("."), fs.ErrClosed)
}

// bothWays runs a test with openat2 and with the walk that replaces it.
func bothWays(t *testing.T, run func(t *testing.T, o *OS)) {
	t.Run("openat2", func(t *testing.T) {
		o := newOS(t)
		if !o.beneath {
			t.Skip("no openat2 on this system")
		}
		run(t, o)
	})
	t.Run("walk", func(t *testing.T) { run(t, newWalkingOS(t)) })
}

func TestOSFollowsNoLink(t *testing.T) {
	bothWays(t, func(t *testing.T, o *OS) {
		outside := t.TempDir()
		must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600))
		must(t, o.Mkdir("real"))
		put(t, o, "real/f", "1")
		for link, target := range map[string]string{
			"out": outside, "in": "real", "file": "real/f", "secret": filepath.Join(outside, "secret"), "dangling": "absent",
		} {
			must(t, os.Symlink(target, o.full(link)))
		}
		for _, name := range []string{"out/secret", "in/f", "file", "secret", "dangling"} {
			_, err := o.Open(name, 0)
			wantErr(t, "Open "+name, err, ErrSymlink)
			_, err = o.Open(name, Create)
			wantErr(t, "Open to create "+name, err, ErrSymlink)
			_, err = o.Lock(name)
			wantErr(t, "Lock "+name, err, ErrSymlink)
		}
		for _, name := range []string{"out", "in"} {
			_, err := o.List(name)
			wantErr(t, "List "+name, err, ErrSymlink)
			_, err = o.Stat(name + "/x")
			wantErr(t, "Stat below "+name, err, ErrSymlink)
			wantErr(t, "SyncDir "+name, o.SyncDir(name), ErrSymlink)
			wantErr(t, "Mkdir below "+name, o.Mkdir(name+"/x"), ErrSymlink)
			wantErr(t, "MkdirAll "+name, o.MkdirAll(name), ErrSymlink)
			wantErr(t, "MkdirAll below "+name, o.MkdirAll(name+"/x"), ErrSymlink)
			wantErr(t, "Remove below "+name, o.Remove(name+"/secret"), ErrSymlink)
			wantErr(t, "RemoveAll below "+name, o.RemoveAll(name+"/secret"), ErrSymlink)
			wantErr(t, "Rename into "+name, o.Rename("real/f", name+"/x"), ErrSymlink)
			wantErr(t, "Link from "+name, o.Link(name+"/f", "x"), ErrSymlink)
		}
		if info, err := o.Stat("out"); err != nil || !info.IsSymlink || info.IsDir {
			t.Errorf("Stat of a link = %+v, %v", info, err)
		}
		must(t, o.RemoveAll("out")) // the link, not what it leads to
		if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
			t.Errorf("RemoveAll followed a link: %v", err)
		}
	})
}

func TestOSOpensRegularFilesOnly(t *testing.T) {
	bothWays(t, func(t *testing.T, o *OS) {
		must(t, unix.Mkfifo(o.full("pipe"), 0o600))
		l, err := net.Listen("unix", o.full("socket"))
		must(t, err)
		defer l.Close()
		for _, name := range []string{"pipe", "socket"} {
			for _, flags := range []OpenFlag{0, ReadWrite, Create, Trunc} {
				_, err := o.Open(name, flags)
				wantErr(t, "Open "+name, err, ErrNotRegular)
			}
			_, err = o.Lock(name)
			wantErr(t, "Lock "+name, err, ErrNotRegular)
		}
	})
}

func TestOSDevice(t *testing.T) {
	o, err := OpenOS("/dev")
	must(t, err)
	defer o.Close()
	_, err = o.Open("null", 0)
	wantErr(t, "Open", err, ErrNotRegular)
}

func TestOSModes(t *testing.T) {
	o := newOS(t)
	must(t, o.MkdirAll("a/b"))
	must(t, o.Mkdir("c"))
	put(t, o, "f", "")
	lock, err := o.Lock("LOCK")
	must(t, err)
	defer lock.Close()
	for name, want := range map[string]fs.FileMode{"a": 0o700, "a/b": 0o700, "c": 0o700, "f": 0o600, "LOCK": 0o600} {
		st, err := os.Lstat(o.full(name))
		must(t, err)
		if got := st.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

// TestOSFollowsItsDirectory: the root is a directory, not a path.
func TestOSFollowsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/old", 0o700))
	o, err := OpenOS(dir + "/old")
	must(t, err)
	defer o.Close()
	must(t, os.Rename(dir+"/old", dir+"/new"))
	must(t, os.Mkdir(dir+"/old", 0o700))
	put(t, o, "f", "1")
	if _, err := os.Stat(dir + "/new/f"); err != nil {
		t.Error(err)
	}
}

func TestOSErrorsSayWhere(t *testing.T) {
	o := newOS(t)
	put(t, o, "f", "")
	file, err := o.Open("f", 0)
	must(t, err)
	defer file.Close()
	_, werr := file.WriteAt(make([]byte, 7), 1234)
	for _, c := range []struct {
		err  error
		want string
	}{
		{werr, "write 7 bytes at 1234 of " + o.full("f") + ": bad file descriptor"},
		{o.Rename("a/x", "b/y"), "rename " + o.full("a/x") + " to " + o.full("b/y") + ": no such file or directory"},
		{o.Remove("a/x"), "remove " + o.full("a/x") + ": no such file or directory"},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", c.err, c.want)
		}
	}
}

func TestOSIsBlockingAgain(t *testing.T) {
	o := newOS(t)
	file := open(t, o, "f")
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	must(t, err)
	if flags&unix.O_NONBLOCK != 0 {
		t.Error("the descriptor is left non-blocking")
	}
	flags, err = unix.FcntlInt(file.Fd(), unix.F_GETFD, 0)
	must(t, err)
	if flags&unix.FD_CLOEXEC == 0 {
		t.Error("the descriptor is inherited by child processes")
	}
}

func TestOSDirect(t *testing.T) {
	o := newOS(t)
	file, err := o.Open("f", Create|Direct)
	if errors.Is(err, ErrDirectUnsupported) {
		t.Skip("the temporary directory refuses O_DIRECT")
	}
	must(t, err)
	defer file.Close()
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	must(t, err)
	if flags&unix.O_DIRECT == 0 {
		t.Fatal("O_DIRECT was lost")
	}
	buf, err := aligned.Alloc(3 * 4096)
	must(t, err)
	defer buf.Free()
	p := buf.Bytes()
	for i := range p {
		p[i] = byte(i / 512)
	}
	_, err = file.WriteAt(p, 0)
	must(t, err)
	// An end of file that is not aligned: reads of more say io.EOF, not EINVAL.
	must(t, file.Truncate(4096+100))
	clear(p)
	n, err := file.ReadAt(p, 0)
	if n != 4096+100 || err != io.EOF || p[4096] != 8 {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
	n, err = file.Readv([][]byte{p[:4096], p[4096:]}, 0)
	if n != 4096+100 || err != io.EOF {
		t.Errorf("Readv = %d, %v", n, err)
	}
	if n, err := file.ReadAt(p, 8192); n != 0 || err != io.EOF {
		t.Errorf("ReadAt past the end = %d, %v", n, err)
	}
	// Some file systems answer 0 to an unaligned read at the end and some
	// EINVAL; the size decides before it is asked.
	of := file.(*osFile)
	if !of.endsBefore(4096+100) || of.endsBefore(4096+99) {
		t.Error("endsBefore does not know where the file ends")
	}
	// What the kernel refuses stays an error.
	_, err = file.ReadAt(p[1:513], 0)
	if err != nil && !errors.Is(err, syscall.EINVAL) {
		t.Errorf("unaligned ReadAt: %v", err)
	}
}

func TestOSGrowToNeverShrinks(t *testing.T) {
	o := newOS(t)
	put(t, o, "f", "0123456789")
	file, err := o.Open("f", ReadWrite)
	must(t, err)
	defer file.Close()
	fd := int(file.Fd())
	for _, c := range []struct {
		off, length, want int64
		err               error
	}{
		{0, 5, 10, nil}, {0, 10, 10, nil}, {8, 4, 12, nil}, {0, 0, 12, unix.EINVAL}, {-1, 5, 12, unix.EINVAL},
	} {
		err := growTo(fd, c.off, c.length)
		info, _ := file.Stat()
		if err != c.err || info.SizeBytes != c.want {
			t.Errorf("growTo(%d, %d): %v, size %d, want %v, %d", c.off, c.length, err, info.SizeBytes, c.err, c.want)
		}
	}
}

func TestOSPreallocateHoldsBlocks(t *testing.T) {
	o := newOS(t)
	file := open(t, o, "f")
	must(t, file.Preallocate(0, 1<<20))
	info, err := file.Stat()
	must(t, err)
	if info.AllocatedBytes < 1<<20 {
		t.Logf("the temporary directory cannot reserve: %+v", info)
	}
	if info.SizeBytes != 1<<20 {
		t.Errorf("size %d", info.SizeBytes)
	}
}

// TestOSLockOfReplacedFile: two owners of one name cannot both hold the lock
// because one of them locked a file that is gone.
func TestOSLockOfReplacedFile(t *testing.T) {
	o := newOS(t)
	var wg sync.WaitGroup
	var holders atomic.Int32
	for range 4 {
		wg.Go(func() {
			for range 200 {
				f, err := o.Lock("LOCK")
				if err != nil {
					if !errors.Is(err, ErrLocked) {
						t.Error(err)
					}
					continue
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d owners hold the lock", n)
				}
				holders.Add(-1)
				// The name goes while the lock is held: who opened the file
				// in between and locks it next must find out.
				if err := o.Remove("LOCK"); err != nil {
					t.Error(err)
				}
				_ = f.Close()
			}
		})
	}
	wg.Wait()
}

// TestOSCloseDuringUse closes files under readers while others are opened: a
// read meets its own file or ErrClosed, never a stranger under its number.
func TestOSCloseDuringUse(t *testing.T) {
	o := newOS(t)
	put(t, o, "mine", strings.Repeat("m", 4096))
	put(t, o, "other", strings.Repeat("o", 4096))
	var wg sync.WaitGroup
	for range 50 {
		mine, err := o.Open("mine", 0)
		must(t, err)
		for range 2 {
			wg.Go(func() {
				p := make([]byte, 4096)
				for {
					n, err := mine.ReadAt(p, 0)
					if errors.Is(err, fs.ErrClosed) {
						return
					}
					if err != nil || strings.Trim(string(p[:n]), "m") != "" {
						t.Errorf("read %d bytes of another file, %v", n, err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			_ = mine.Close()
			if f, err := o.Open("other", 0); err == nil {
				_ = f.Close()
			}
		})
	}
	wg.Wait()
}

func TestFdRef(t *testing.T) {
	var fds [2]int
	must(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	defer unix.Close(fds[0])
	r := &fdRef{fd: fds[1]}
	for range 2 {
		if !r.acquire() {
			t.Fatal("acquire refused")
		}
	}
	must(t, r.close())
	if r.acquire() {
		t.Error("acquire after close")
	}
	if r.close() != fs.ErrClosed {
		t.Error("second close")
	}
	r.release()
	if _, err := unix.Write(fds[1], []byte("x")); err != nil {
		t.Errorf("closed under its last user: %v", err)
	}
	r.release()
	if _, err := unix.FcntlInt(uintptr(fds[1]), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the descriptor was not closed by its last user: %v", err)
	}
}

func TestAdvance(t *testing.T) {
	bufs := [][]byte{[]byte("ab"), {}, []byte("cde"), []byte("f")}
	for n, want := range []string{"ab||cde|f", "b||cde|f", "cde|f", "de|f", "e|f", "f", ""} {
		var parts []string
		for _, b := range advance(bufs, n) {
			parts = append(parts, string(b))
		}
		if got := strings.Join(parts, "|"); got != want {
			t.Errorf("advance by %d = %q, want %q", n, got, want)
		}
	}
	if string(bufs[0]) != "ab" {
		t.Error("advance changed the caller's buffers")
	}
}
