package wal

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/sealstone/sealstone/internal/vfs"
)

// FileInfo describes one log file as Recover found it.
type FileInfo struct {
	Name      string // path within the file system
	Base, End LSN    // of its frames; equal when it holds none
	SizeBytes int64
	Starts    bool // starts a log; else it continues the file before it
	Examined  bool // false: behind a corruption, only the header was read
	Groups    int
	Records   int
	Torn      *Torn            // the file ends in what a crash left
	Corrupt   *CorruptionError // durable bytes are bad
}

// logFile is one file of the directory with its header read.
type logFile struct {
	path      string
	base      LSN // from the name
	sizeBytes int64
	h         header
	problem   string // why there is no usable header; empty if there is
	foreign   bool   // the header is whole, but not one for this place
}

// listBases gives the bases of all log files in order, and the names that are
// none. A directory that is absent holds no files.
func listBases(o *Options) (bases []LSN, strange []string, err error) {
	names, err := o.FS.List(o.Dir)
	if vfs.IsNotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("wal: list %s: %w", o.Dir, err)
	}
	for _, name := range names { // sorted, and so are the bases in hex
		if base, ok := parseFileName(name); ok {
			bases = append(bases, base)
		} else {
			strange = append(strange, path.Join(o.Dir, name))
		}
	}
	return bases, strange, nil
}

// readHeaders reads the header of each file. Errors are I/O or unsupported
// formats; a bad header is the file's problem.
func readHeaders(o *Options, bases []LSN) ([]logFile, error) {
	files := make([]logFile, 0, len(bases))
	for _, base := range bases {
		f, err := readHeaderOf(o, base)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// CheckFormat is an *UnsupportedError if the directory holds a file of a later
// format, found by the headers alone. Other errors are those of I/O.
func CheckFormat(o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	bases, _, err := listBases(&o)
	if err != nil {
		return err
	}
	_, err = readHeaders(&o, bases)
	return err
}

func readHeaderOf(o *Options, base LSN) (logFile, error) {
	lf := logFile{path: o.path(base), base: base}
	page, size, err := readFile(o.FS, lf.path, headerBytes)
	if err != nil {
		return lf, err
	}
	lf.sizeBytes = size
	lf.h, lf.problem, err = decodeHeader(page)
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) {
		unsupported.File = lf.path
		return lf, unsupported
	}
	if lf.problem == "" {
		lf.problem = lf.h.foreign(o.UUID, base)
		lf.foreign = lf.problem != ""
	}
	return lf, nil
}

// readFile reads at most limit bytes from the start of a file and gives its
// size beside them.
func readFile(fs vfs.FS, name string, limit int64) (data []byte, sizeBytes int64, err error) {
	f, err := fs.Open(name, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("wal: open %s: %w", name, err)
	}
	defer f.Close() // opened for reading: nothing to lose
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("wal: stat %s: %w", name, err)
	}
	data = make([]byte, min(info.SizeBytes, limit))
	n, err := f.ReadAt(data, 0)
	if err != nil && (!errors.Is(err, io.EOF) || n != len(data)) {
		return nil, 0, fmt.Errorf("wal: read %s at offset %d: %w", name, n, err)
	}
	return data, info.SizeBytes, nil
}
