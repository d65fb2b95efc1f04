package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sealstone/sealstone/internal/vfs"
)

// probeBytes is what a probe moves: several pages, at an offset of one page.
const probeBytes = 64 << 10

// probeDirect tries direct I/O in the directory of the segments and returns
// why it is not to be used, or "". Success is permission to try, no more.
func (v *Volume) probeDirect() (refusal string) {
	if v.o.Direct == DirectNever {
		return "switched off"
	}
	var err error
	if v.o.ReadOnly {
		err = v.probeRead()
	} else {
		err = v.probeWriteRead()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// probeWriteRead writes random bytes to a scratch file past the page cache,
// and wants the same bytes back both past it and through it.
func (v *Volume) probeWriteRead() (err error) {
	direct, err := v.o.FS.Open(probeName, vfs.ReadWrite|vfs.Create|vfs.Trunc|vfs.Direct)
	if err != nil {
		// Some systems make the file before they refuse the flag.
		_ = v.o.FS.Remove(probeName)
		return err
	}
	defer func() { err = errors.Join(err, direct.Close(), v.o.FS.Remove(probeName)) }()
	out, err := v.o.Pool.TryGet(probeBytes)
	if err != nil {
		return err
	}
	defer out.Free()
	want := out.Bytes()[:probeBytes]
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	_, _ = rand.NewChaCha8(seed).Read(want)
	if _, err := direct.WriteAt(want, PageBytes); err != nil {
		return err
	}
	if err := direct.Datasync(); err != nil {
		return err
	}
	if err := v.probeCompare(direct, PageBytes, want, "direct"); err != nil {
		return err
	}
	buffered, err := v.o.FS.Open(probeName, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, buffered.Close()) }()
	return v.probeCompare(buffered, PageBytes, want, "buffered")
}

// probeRead compares the header page of a segment read both ways.
func (v *Volume) probeRead() (err error) {
	ids := v.sortedIDs()
	if len(ids) == 0 {
		return errors.New("read-only, and no segment to probe with")
	}
	name := SegmentName(ids[0])
	buffered, err := v.o.FS.Open(name, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, buffered.Close()) }()
	direct, err := v.o.FS.Open(name, vfs.Direct)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, direct.Close()) }()
	want := make([]byte, PageBytes)
	if err := readFull(buffered, [][]byte{want}, 0, PageBytes, false); err != nil {
		return err
	}
	return v.probeCompare(direct, 0, want, "direct")
}

// probeCompare reads len(want) bytes into poisoned memory and compares.
func (v *Volume) probeCompare(f vfs.File, off int64, want []byte, how string) error {
	in, err := v.o.Pool.TryGet(len(want))
	if err != nil {
		return err
	}
	defer in.Free()
	got := in.Bytes()[:len(want)]
	for i := range got {
		got[i] = ^want[i]
	}
	if err := readFull(f, [][]byte{got}, off, len(got), true); err != nil {
		return fmt.Errorf("%s read: %w", how, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s read of %s gave other bytes than were written", how, probeName)
	}
	return nil
}
