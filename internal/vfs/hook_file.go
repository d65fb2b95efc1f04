package vfs

import "errors"

// hookFile asks the hook before each operation on a file; Close, DropCache
// and StartWriteback go through.
type hookFile struct {
	File
	fs   *hookFS
	name string
}

func (f *hookFile) ask(kind OpKind, off, length int64) error {
	return f.fs.ask(Op{Kind: kind, Name: f.name, Offset: off, Length: length})
}

// late does what a LateError leaves to be done, and returns what to report.
func late(err error, do func()) error {
	var l *LateError
	if !errors.As(err, &l) {
		return err
	}
	do()
	return l.Err
}

func (f *hookFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ask(OpRead, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *hookFile) Readv(bufs [][]byte, off int64) (int, error) {
	var length int64
	for _, p := range bufs {
		length += int64(len(p))
	}
	if err := f.ask(OpRead, off, length); err != nil {
		return 0, err
	}
	return f.File.Readv(bufs, off)
}

func (f *hookFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.ask(OpWrite, off, int64(len(p))); err != nil {
		return 0, late(err, func() { _, _ = f.File.WriteAt(p, off) })
	}
	return f.File.WriteAt(p, off)
}

func (f *hookFile) Sync() error {
	if err := f.ask(OpSync, 0, 0); err != nil {
		return late(err, func() { _ = f.File.Sync() })
	}
	return f.File.Sync()
}

func (f *hookFile) Datasync() error {
	if err := f.ask(OpSync, 0, 0); err != nil {
		return late(err, func() { _ = f.File.Datasync() })
	}
	return f.File.Datasync()
}

func (f *hookFile) Truncate(sizeBytes int64) error {
	if err := f.ask(OpTruncate, sizeBytes, 0); err != nil {
		return err
	}
	return f.File.Truncate(sizeBytes)
}

func (f *hookFile) Preallocate(off, length int64) error {
	if err := f.ask(OpPreallocate, off, length); err != nil {
		return err
	}
	return f.File.Preallocate(off, length)
}

func (f *hookFile) Stat() (Info, error) {
	if err := f.ask(OpStat, 0, 0); err != nil {
		return Info{}, err
	}
	return f.File.Stat()
}

func (f *hookFile) Fd() uintptr { return InvalidFd }
