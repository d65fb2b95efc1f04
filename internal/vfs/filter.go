package vfs

// WithReadFilter returns fs, of which everything read passes through f before
// the reader sees it: f may change p, the bytes of file name from off on. It
// may be called concurrently, in the readers' goroutines; a Readv calls it per
// buffer. The files have no Fd, so that no read goes past f. It stands for
// devices that answer wrong bytes with success.
func WithReadFilter(fs FS, f func(name string, off int64, p []byte)) FS {
	return &filterFS{FS: fs, filter: f}
}

type filterFS struct {
	FS
	filter func(name string, off int64, p []byte)
}

func (k *filterFS) Open(name string, flags OpenFlag) (File, error) {
	f, err := k.FS.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return &filterFile{File: f, fs: k, name: name}, nil
}

func (k *filterFS) Lock(name string) (File, error) {
	f, err := k.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	return &filterFile{File: f, fs: k, name: name}, nil
}

type filterFile struct {
	File
	fs   *filterFS
	name string
}

func (f *filterFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if n > 0 {
		f.fs.filter(f.name, off, p[:n])
	}
	return n, err
}

func (f *filterFile) Readv(bufs [][]byte, off int64) (int, error) {
	n, err := f.File.Readv(bufs, off)
	left := n
	for _, p := range bufs {
		got := min(left, len(p))
		if got > 0 {
			f.fs.filter(f.name, off, p[:got])
		}
		off, left = off+int64(got), left-got
	}
	return n, err
}

func (f *filterFile) Fd() uintptr { return InvalidFd }
