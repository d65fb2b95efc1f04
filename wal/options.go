package wal

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"path"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Limits of the format.
const (
	// MaxRecordBytes is the largest record.
	MaxRecordBytes = 1 << 20
	// MinSegmentBytes and MaxSegmentBytes bound the size of one file.
	MinSegmentBytes = 8 << 10
	MaxSegmentBytes = 256 << 20
)

// Options say where a log lives and whose it is.
type Options struct {
	FS  vfs.FS
	Dir string // directory of the log files; Create makes it
	// UUID is the store's. A file with another one is corruption.
	UUID [16]byte
	// SegmentBytes is the size of one file, preallocated: a multiple of
	// 4096 between MinSegmentBytes and MaxSegmentBytes. Recover takes each
	// file's size from its header and ignores this.
	SegmentBytes int64

	salt func() uint64 // nil: random; fixed by golden tests
}

func (o *Options) check() error {
	if o.FS == nil || o.Dir == "" {
		return fmt.Errorf("%w: FS and Dir are required", ErrInvalidOptions)
	}
	return nil
}

func (o *Options) checkWrite() error {
	if err := o.check(); err != nil {
		return err
	}
	n := o.SegmentBytes
	if n < MinSegmentBytes || n > MaxSegmentBytes || n%headerBytes != 0 {
		return fmt.Errorf("%w: SegmentBytes %d is not a multiple of %d from %d to %d",
			ErrInvalidOptions, n, headerBytes, MinSegmentBytes, MaxSegmentBytes)
	}
	return nil
}

// path is the path of the log file with the given base.
func (o *Options) path(base LSN) string { return path.Join(o.Dir, fileName(base)) }

func (o *Options) newSalt() uint64 {
	if o.salt != nil {
		return o.salt()
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return binary.LittleEndian.Uint64(b[:])
}
