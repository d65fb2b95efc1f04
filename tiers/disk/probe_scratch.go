package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sealstone/sealstone/internal/vfs"
)

// scratchNamesMax bounds the probes that run in a directory at one time.
const scratchNamesMax = 16

func scratchName(i int) string {
	if i == 0 {
		return "sealstone-probe.tmp"
	}
	return fmt.Sprintf("sealstone-probe-%d.tmp", i)
}

var scratchPattern = regexp.MustCompile(`^sealstone-probe(-[0-9]{1,2})?\.tmp$`)

// IsProbeScratch says whether a name in a directory is that of a probe's
// scratch file. One that a probe left behind is removed by the next.
func IsProbeScratch(name string) bool { return scratchPattern.MatchString(name) }

// scratchFile is the file that a probe works on: its own, locked against
// other probes, or one that is only read.
type scratchFile struct {
	fs   vfs.FS
	name string
	// buffered goes through the page cache, direct past it. Direct is nil
	// until it was opened.
	buffered, direct vfs.File
	own              bool // to be removed
	readOnly         bool
}

// openScratch makes the scratch file, empty. A file left by a probe that
// ended is taken over: nobody holds its lock. It is a lock file because other
// processes may probe the same directory.
func openScratch(fsys vfs.FS) (*scratchFile, error) {
	for i := range scratchNamesMax {
		name := scratchName(i)
		f, err := lockScratch(fsys, name)
		if errors.Is(err, vfs.ErrLocked) || errors.Is(err, vfs.ErrSymlink) || errors.Is(err, vfs.ErrNotRegular) {
			continue // another probe's, or no file at all: it stays
		}
		if err != nil {
			return nil, err
		}
		s := &scratchFile{fs: fsys, name: name, buffered: f, own: true}
		if info, err := f.Stat(); err == nil && info.SizeBytes > 0 {
			if err := f.Truncate(0); err != nil {
				s.close()
				return nil, err
			}
		}
		return s, nil
	}
	return nil, fmt.Errorf("all %d names for it are taken, by probes that run in this directory or by what is no file", scratchNamesMax)
}

// lockScratch locks the file, or only opens it where the file system knows no
// locks.
func lockScratch(fsys vfs.FS, name string) (vfs.File, error) {
	f, err := fsys.Lock(name)
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOLCK) {
		return fsys.Open(name, vfs.Create|vfs.Trunc)
	}
	return f, err
}

// sweepScratch removes what ended probes left under the other names.
func (s *scratchFile) sweep() {
	if s == nil || s.readOnly {
		return
	}
	names, err := s.fs.List(".")
	if err != nil {
		return
	}
	for _, n := range names {
		if n == s.name || !IsProbeScratch(n) {
			continue
		}
		if f, err := s.fs.Lock(n); err == nil {
			_ = s.fs.Remove(n)
			_ = f.Close()
		}
	}
}

// cannotWrite: nothing can be written here now, which says nothing about
// reading.
func cannotWrite(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, fs.ErrPermission)
}

// openForReading opens a file of the directory that has at least a page: a
// segment of a store, or any other.
func openForReading(fsys vfs.FS) (*scratchFile, error) {
	for _, dir := range []string{segmentsDir, "."} {
		if name := firstFile(fsys, dir, 1); name != "" {
			f, err := fsys.Open(name, 0)
			if err != nil {
				return nil, err
			}
			return &scratchFile{fs: fsys, name: name, buffered: f, readOnly: true}, nil
		}
	}
	return nil, errors.New("read-only, and no segment to probe with")
}

// readNamesMax bounds the names that the search for a file looks at.
const readNamesMax = 4096

// firstFile finds a regular file of a page or more in dir, or depth
// directories below it.
func firstFile(fsys vfs.FS, dir string, depth int) string {
	names, err := fsys.List(dir)
	if err != nil {
		return ""
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "." || n == ".." || IsProbeScratch(n) })
	for _, n := range names[:min(len(names), readNamesMax)] {
		full := strings.TrimPrefix(path.Join(dir, n), "./")
		info, err := fsys.Stat(full)
		switch {
		case err != nil:
		case info.IsRegular && info.SizeBytes >= PageBytes:
			return full
		case info.IsDir && depth > 0:
			if found := firstFile(fsys, full, depth-1); found != "" {
				return found
			}
		}
	}
	return ""
}

// openDirect opens the file past the page cache, unless it is.
func (s *scratchFile) openDirect() error {
	if s.direct != nil {
		return nil
	}
	flags := vfs.Direct
	if !s.readOnly {
		flags |= vfs.ReadWrite
	}
	f, err := s.fs.Open(s.name, flags)
	if err == nil {
		s.direct = f
	}
	return err
}

// close closes the file and removes it. A file that cannot be removed is left
// to the next probe; there is nobody to tell.
func (s *scratchFile) close() {
	if s == nil {
		return
	}
	if s.own {
		_ = s.fs.Remove(s.name)
	}
	if s.direct != nil {
		_ = s.direct.Close()
	}
	_ = s.buffered.Close()
}
