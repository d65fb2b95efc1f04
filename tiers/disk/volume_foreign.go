package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sealstone/sealstone/internal/vfs"
)

// A restored backup, or a mistake, can put a file of another store under a
// name of ours. Such a file is nobody's to seal, cut or remove here, so it is
// told from a segment of ours whose header page is damaged. Its header cannot
// be proven, for want of the other store's key; so all of these must hold:
//
//   - the page can be read, is not empty, and names another store, or is no
//     header at all, or is that of another segment of ours (a copy under a
//     wrong name); in the last two cases it lies beside no sidecar of ours
//   - nothing behind it is proven ours, neither a trailer nor the first extent
//
// In doubt a file is ours: its blocks, if there are any, verify or miss.

// foreignHeadBytes is the sector of a header page with everything in it.
const foreignHeadBytes = 512

// isForeign reports whether f, whose header page is not valid, belongs to
// another store or to none.
func (v *Volume) isForeign(f vfs.File, s *segment) bool {
	if s.info.Sealed || !errors.Is(s.info.HeaderErr, ErrCorrupt) {
		return false
	}
	page := make([]byte, PageBytes)
	if err := readFull(f, [][]byte{page}, 0, PageBytes, false); err != nil {
		return false
	}
	if allZero(page[:foreignHeadBytes]) || [16]byte(page[segUUIDOffset:]) == v.o.UUID && !v.isMisplaced(page, s.id) {
		return false
	}
	first := Address{s.id, 1}
	if p, err := v.readHeaderPages(f, first); err == nil {
		if _, _, err := v.decodeAt(p, first); err == nil {
			return false
		}
	}
	if segmentHeader.hasMagic(page) && [16]byte(page[segUUIDOffset:]) != v.o.UUID {
		return true
	}
	header, err := v.sidecarHeader(s.id)
	return err == nil && checkTombstoneHeader(header, s.id, v.o.UUID, v.o.Key) != nil
}

// isMisplaced reports whether a page is the header of another segment of this
// store.
func (v *Volume) isMisplaced(page []byte, id uint64) bool {
	h, err := DecodeSegmentHeader(page, v.o.Key)
	return err == nil && h.UUID == v.o.UUID && h.Segment != id
}

// sidecarHeader reads the header of a sidecar, which is shorter or empty where
// the file is, or is not there.
func (v *Volume) sidecarHeader(id uint64) (p []byte, err error) {
	f, err := v.o.FS.Open(SidecarName(id), 0)
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p = make([]byte, min(info.SizeBytes, TombstoneHeaderBytes))
	if len(p) == 0 {
		return p, nil
	}
	return p, readFull(f, [][]byte{p}, 0, len(p), false)
}

// setForeignAside takes the foreign segments, and the sidecars beside them,
// off the list of ours. They are strange, and what they hold is counted.
func (v *Volume) setForeignAside() {
	for id, s := range v.segs {
		if !s.foreign {
			continue
		}
		delete(v.segs, id)
		v.addForeign(id, SegmentName(id), s.dataBytes)
		if s.info.HasSidecar {
			v.addForeign(id, SidecarName(id), s.sidecarBytes)
		}
	}
}

// setForeignSidecarsAside does so with sidecars without a segment that name
// another store, or cannot be read, and returns the others.
func (v *Volume) setForeignSidecarsAside(orphans []uint64) (ours []uint64) {
	for _, id := range orphans {
		p, err := v.sidecarHeader(id)
		named := len(p) == TombstoneHeaderBytes && tombstoneFile.hasMagic(p)
		if err == nil && (!named || [16]byte(p[tombUUIDOffset:]) == v.o.UUID) {
			ours = append(ours, id)
			continue
		}
		info, _ := v.o.FS.Stat(SidecarName(id)) // of one that cannot be seen nothing is counted
		v.addForeign(id, SidecarName(id), info.AllocatedBytes)
	}
	return ours
}

func (v *Volume) addForeign(id uint64, name string, bytes int64) {
	v.foreign[id] = name
	v.strange = append(v.strange, name)
	v.allocated += bytes
}

// foreignErr is why no segment of this id can be made.
func (v *Volume) foreignErr(id uint64) error {
	name, ok := v.foreign[id]
	if !ok {
		return nil
	}
	return fmt.Errorf("%s is not of this store: move it elsewhere and open again: %w", name, fs.ErrExist)
}
