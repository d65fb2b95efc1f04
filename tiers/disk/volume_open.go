package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

// openWorkers is how many segments OpenVolume looks at at one time.
const openWorkers = 8

// OpenVolume lists the segments of a store, reading two pages of each, and
// tries direct I/O in their directory. It is an error if the directory cannot
// be listed or made; damage in a segment is not, and stands in its
// SegmentInfo. A file of another store under the name of a segment is none: it
// is listed as strange.
//
// A sidecar whose segment is gone is what an interrupted Unlink leaves behind.
// It is removed, after the segment's removal was made durable.
func OpenVolume(o VolumeOptions) (*Volume, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	v := &Volume{
		o:     o,
		cache: newFileCache(o.MaxOpenFiles),
		segs:  map[uint64]*segment{},
		dirs:  map[string]bool{},

		foreign: map[uint64]string{},
	}
	if o.Pool == nil {
		v.o.Pool, v.ownPool = aligned.NewPool(ownPoolBytes), true
	}
	if err := v.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("disk: open volume: %w", err), v.Close())
	}
	return v, nil
}

func (v *Volume) load() error {
	if !v.o.ReadOnly {
		if err := v.o.FS.MkdirAll(segmentsDir); err != nil {
			return err
		}
		if err := v.o.FS.SyncDir("."); err != nil {
			return err
		}
	}
	orphans, err := v.list()
	if err != nil {
		return err
	}
	v.inspectAll()
	v.setForeignAside()
	orphans = v.setForeignSidecarsAside(orphans)
	if v.directRefusal, err = v.probeDirect(); err != nil {
		return err
	}
	if v.o.ReadOnly {
		for _, id := range orphans {
			v.strange = append(v.strange, SidecarName(id))
		}
	} else if err := v.removeOrphans(orphans); err != nil {
		return err
	}
	slices.Sort(v.strange)
	for _, s := range v.segs {
		v.allocated += s.dataBytes + s.sidecarBytes
	}
	return nil
}

// probeDirect returns why direct I/O is not to be used, or "".
func (v *Volume) probeDirect() (refusal string, err error) {
	if v.o.Direct == DirectNever {
		return "switched off", nil
	}
	r := v.o.Probe
	if r == nil {
		if r, err = Probe(context.Background(), ProbeOptions{FS: v.o.FS, Quick: true, ReadOnly: v.o.ReadOnly}); err != nil {
			return "", err
		}
	}
	return r.DirectRefusal(), nil
}

// list fills segs and strange from the names, and returns the ids of sidecars
// without a segment.
func (v *Volume) list() (orphans []uint64, err error) {
	dirs, err := v.o.FS.List(segmentsDir)
	if vfs.IsNotExist(err) && v.o.ReadOnly {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, hh := range dirs {
		name := path.Join(segmentsDir, hh)
		info, err := v.o.FS.Stat(name)
		if err != nil && !vfs.IsNotExist(err) {
			return nil, err // what is in there is unknown, not absent
		}
		if err != nil || !info.IsDir || !isDirName(hh) {
			v.strange = append(v.strange, name)
			continue
		}
		more, err := v.listDir(hh)
		if err != nil {
			return nil, err
		}
		orphans = append(orphans, more...)
	}
	return orphans, nil
}

func (v *Volume) listDir(hh string) (orphans []uint64, err error) {
	dir := path.Join(segmentsDir, hh)
	names, err := v.o.FS.List(dir)
	if err != nil {
		return nil, err
	}
	var sidecars []uint64
	for _, name := range names {
		id, sidecar, ok := parseName(hh, name)
		full := path.Join(dir, name)
		if isRenewal(hh, name) && !v.o.ReadOnly && v.o.FS.Remove(full) == nil {
			continue // what it was to replace is there
		}
		info, err := v.o.FS.Stat(full)
		if err != nil && !vfs.IsNotExist(err) {
			// Taken for absent, the segment's blocks would be given up, and its
			// sidecar removed.
			return nil, err
		}
		if !ok || err != nil || !info.IsRegular {
			v.strange = append(v.strange, full)
			continue
		}
		if sidecar {
			sidecars = append(sidecars, id)
			continue
		}
		v.segs[id] = v.newSegment(id)
		v.segs[id].info.SizeBytes, v.segs[id].info.Modified = info.SizeBytes, info.Modified
		v.segs[id].dataBytes = info.AllocatedBytes
	}
	for _, id := range sidecars {
		s, ok := v.segs[id]
		if !ok {
			orphans = append(orphans, id)
			continue
		}
		s.info.HasSidecar = true
		if info, err := v.o.FS.Stat(SidecarName(id)); err == nil {
			s.sidecarBytes = info.AllocatedBytes
		}
	}
	return orphans, nil
}

func (v *Volume) newSegment(id uint64) *segment {
	s := &segment{id: id, info: SegmentInfo{ID: id}}
	s.data = cachedFile{
		name:   SegmentName(id),
		width:  2,
		opener: func() (vfs.File, vfs.File, error) { return v.openFiles(SegmentName(id)) },
	}
	s.tombs.file = cachedFile{
		name:  SidecarName(id),
		width: 1,
		opener: func() (vfs.File, vfs.File, error) {
			flags := vfs.ReadWrite
			if v.o.ReadOnly {
				flags = 0
			}
			f, err := v.o.FS.Open(SidecarName(id), flags)
			return f, nil, err
		},
	}
	return s
}

// openFiles opens a segment through the page cache and, where direct I/O is
// in use, past it. A file that refuses direct I/O does without.
func (v *Volume) openFiles(name string) (buffered, direct vfs.File, err error) {
	buffered, err = v.o.FS.Open(name, 0)
	if err != nil {
		return nil, nil, err
	}
	direct, err = v.openDirect(name, 0)
	if err != nil {
		return nil, nil, errors.Join(err, buffered.Close())
	}
	return buffered, direct, nil
}

// openDirect opens a segment past the page cache, or returns nil.
func (v *Volume) openDirect(name string, flags vfs.OpenFlag) (vfs.File, error) {
	if !v.useDirect() {
		return nil, nil
	}
	direct, err := v.o.FS.Open(name, flags|vfs.Direct)
	if isRefusal(err) {
		v.refuseDirect(fmt.Sprintf("open %s: %v", name, err))
		return nil, nil
	}
	return direct, err
}

// inspectAll reads header and trailer of each segment, several at a time:
// on a cold disk each costs two reads.
func (v *Volume) inspectAll() {
	work := make(chan *segment)
	var wg sync.WaitGroup
	for range min(openWorkers, len(v.segs)) {
		wg.Go(func() {
			for s := range work {
				v.inspect(s)
			}
		})
	}
	for _, id := range v.sortedIDs() {
		work <- v.segs[id]
	}
	close(work)
	wg.Wait()
}

// inspect fills in Class, Sealed and HeaderErr of a listed segment, and whether
// it is one.
func (v *Volume) inspect(s *segment) {
	f, err := v.o.FS.Open(SegmentName(s.id), 0)
	if err != nil {
		s.info.HeaderErr = fmt.Errorf("disk: open segment %016x: %w", s.id, err)
		s.info.TrailerErr = s.info.HeaderErr
		return
	}
	page := make([]byte, PageBytes)
	s.info.Class, s.info.HeaderErr = v.readHeader(f, s.id, page)
	s.info.Sealed, s.info.TrailerErr = v.hasTrailer(f, s.id, s.info.SizeBytes, page)
	s.foreign = v.isForeign(f, s)
	_ = f.Close() // nothing was written
}

// readHeader checks that page 0 of f is the header of segment id.
func (v *Volume) readHeader(f vfs.File, id uint64, page []byte) (uint8, error) {
	if err := readFull(f, [][]byte{page}, 0, PageBytes, false); err != nil {
		return 0, corruptAt(id, 0, "segment header", ReasonShort, err)
	}
	h, err := DecodeSegmentHeader(page, v.o.Key)
	if err != nil {
		return 0, placed(err, SegmentName(id), id, 0)
	}
	if h.UUID != v.o.UUID || h.Segment != id {
		return 0, corruptAt(id, 0, "segment header", ReasonPlace,
			fmt.Errorf("it is of segment %016x of store %x", h.Segment, h.UUID))
	}
	return h.Class, nil
}

// hasTrailer reports whether the last page of the file is a valid trailer. An
// error says that the page could not be read.
func (v *Volume) hasTrailer(f vfs.File, id uint64, sizeBytes int64, page []byte) (bool, error) {
	if sizeBytes < 2*PageBytes || sizeBytes%PageBytes != 0 {
		return false, nil
	}
	at := sizeBytes - PageBytes
	if err := readFull(f, [][]byte{page}, at, PageBytes, false); errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("disk: read the last page of %s (offset %d): %w", SegmentName(id), at, err)
	}
	_, _, err := v.trailer(page, id, sizeBytes)
	return err == nil, nil
}

// removeOrphans removes sidecars whose segment is gone. The removal of the
// segment is made durable first: the other way round a power cut could bring
// the segment back without its tombstones.
func (v *Volume) removeOrphans(ids []uint64) error {
	synced := map[string]bool{}
	for _, id := range ids {
		dir := segmentDir(id)
		if !synced[dir] {
			if err := v.o.FS.SyncDir(dir); err != nil {
				return err
			}
			synced[dir] = true
		}
		if err := v.o.FS.Remove(SidecarName(id)); err != nil && !vfs.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// corruptAt makes a CorruptError of this package's reads.
func corruptAt(id uint64, offset int64, what, reason string, err error) error {
	return &CorruptError{What: what, File: SegmentName(id), Segment: id, Offset: offset, Reason: reason, Err: err}
}

// placed adds to a CorruptError of a codec where the bytes were read.
func placed(err error, file string, id uint64, offset int64) error {
	var c *CorruptError
	if !errors.As(err, &c) {
		return fmt.Errorf("%s at %d: %w", file, offset, err)
	}
	at := *c
	at.File, at.Segment, at.Offset = file, id, offset+c.Offset
	return &at
}
