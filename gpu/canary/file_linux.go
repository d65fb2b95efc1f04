package canary

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
	"golang.org/x/sys/unix"
)

// scratchFile is the file that a trial reads, in a folder of its own: if the
// kernel hangs over the file, whoever tries to remove it hangs with the folder,
// and this one is nobody else's.
type scratchFile struct {
	folder     string
	lock       *os.File // of the folder: who holds it is alive
	f, direct  *os.File
	handle     driver.Handle
	registered bool
	// content is what stands in the file, before what stood there last.
	content, before []byte
}

const fileName = "data"

func (t *trial) makeFile(context.Context) (string, *finding) {
	sweep(t.r.Dir)
	s := &t.file
	s.content = make([]byte, fileBytes(t.r.IOBytesMax))
	if err := s.create(filepath.Join(t.r.Dir, t.r.Scratch)); err != nil {
		return "", failed("make the file", err)
	}
	if f := s.fill(); f != nil {
		return "", f
	}
	return fmt.Sprintf("%d bytes on %s", len(s.content), t.v.Key.Filesystem), nil
}

func (s *scratchFile) create(folder string) (err error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	s.folder = folder
	if s.lock, err = os.Open(folder); err != nil {
		return err
	}
	// A file system without locks only makes what is left behind stay.
	_ = unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	name := filepath.Join(folder, fileName)
	if s.f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600); err != nil {
		return err
	}
	// As package gpu opens segments: a second descriptor of the same file,
	// without the O_NOFOLLOW that cuFile refuses (5019).
	s.direct, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", s.f.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
	return err
}

func (s *scratchFile) directFd() int { return int(s.direct.Fd()) }

// fill writes new random bytes over the whole file, has them reach the device,
// and forgets them in the page cache. Each byte is written: a file with holes
// is read by other ways.
func (s *scratchFile) fill() *finding {
	var seed [32]byte
	_, _ = cryptorand.Read(seed[:]) // never fails
	old := s.content
	s.content = make([]byte, len(old))
	_, _ = rand.NewChaCha8(seed).Read(s.content) // never fails
	if _, err := s.f.WriteAt(s.content, 0); err != nil {
		return failed("write the file", err)
	}
	if err := errors.Join(s.f.Sync(), s.lock.Sync()); err != nil {
		return failed("sync the file", err)
	}
	_ = unix.Fadvise(int(s.f.Fd()), 0, int64(len(s.content)), unix.FADV_DONTNEED) // a hint
	var st unix.Stat_t
	if err := unix.Fstat(int(s.f.Fd()), &st); err != nil {
		return failed("look at the file", err)
	}
	if f := checkWhole(int64(len(s.content)), st.Size, st.Blocks*512); f != nil {
		return f
	}
	if s.handle != 0 { // not the first content
		s.before = old
	}
	return nil
}

// checkWhole sees whether each byte of a file has its place on the device.
func checkWhole(want, size, allocated int64) *finding {
	if size == want && allocated >= want {
		return nil
	}
	return found(nameHoles, "the file has %d bytes of %d and takes %d on its device: its file system leaves holes, or compresses, and direct reads need neither", size, want, allocated)
}

// remove closes and removes everything; a second call does nothing.
func (s *scratchFile) remove() error {
	var errs []error
	for _, f := range []**os.File{&s.direct, &s.f} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
		s.folder = ""
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
		s.lock = nil
	}
	return errors.Join(errs...)
}

const (
	// sweepNamesMax bounds the names that the search for leftovers looks at.
	sweepNamesMax = 4096
	// sweepAge is how old a leftover must be: a folder is made before it is
	// locked.
	sweepAge = time.Hour
)

// sweep removes folders of canaries that were killed, and whose kernel let go
// of them: nobody holds their lock. It is a courtesy and reports nothing.
func sweep(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, err := d.Readdirnames(sweepNamesMax)
	if err != nil && err != io.EOF {
		return
	}
	for _, n := range names {
		if IsScratch(n) {
			sweepOne(filepath.Join(dir, n))
		}
	}
}

func sweepOne(folder string) {
	f, err := os.OpenFile(folder, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || time.Since(info.ModTime()) < sweepAge {
		return
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = os.RemoveAll(folder)
	}
}

// mapMemory maps memory that is not Go's.
func mapMemory(bytes int64) ([]byte, error) {
	page := int64(os.Getpagesize())
	b, err := unix.Mmap(-1, 0, int((bytes+page-1)/page*page), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return b, nil
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }
