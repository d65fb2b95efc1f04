package meta

import (
	"crypto/rand"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// dataDirs hold what is worthless without STORE.
var dataDirs = []string{"segments", "wal", "index"}

// CreateParams are the facts of a new store.
type CreateParams struct {
	UUID           [16]byte // zero: drawn at random
	Secret         [32]byte // zero: drawn at random
	SetUUID        [16]byte // zero: no set, and then Member 0 of 1
	Member         uint32
	Members        uint32 // 0 stands for 1
	SegmentBytes   int64  // a multiple of AlignmentBytes, at least 4 of them
	AlignmentBytes uint32 // power of two, 4 KiB to 1 MiB
	PebbleFormat   uint32
	CreatedUnix    int64
}

// Create makes the metadata of a store in a directory that has none, durable
// before it returns; only the directory's own name is the caller's to sync. It
// comes before segments, log and index: where those have files and STORE is
// gone it fails with ErrExists, because a new store would bury them. What a
// crash inside Create left is overwritten.
func Create(fsys vfs.FS, p CreateParams) (*Meta, error) {
	if err := checkFresh(fsys); err != nil {
		return nil, err
	}
	if p.UUID == [16]byte{} {
		rand.Read(p.UUID[:]) // never fails
	}
	if p.Secret == [32]byte{} {
		rand.Read(p.Secret[:])
	}
	s := &storeState{secret: p.Secret, info: StoreInfo{
		Version: FormatVersion, Generation: 1,
		UUID: p.UUID, SetUUID: p.SetUUID, Member: p.Member, Members: max(p.Members, 1),
		SegmentBytes: p.SegmentBytes, AlignmentBytes: p.AlignmentBytes,
		PebbleFormat: p.PebbleFormat, CreatedUnix: p.CreatedUnix,
	}}
	if err := s.info.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	n := &namesState{
		envelope:     envelope{version: FormatVersion, generation: 1, uuid: p.UUID},
		segmentBound: 1, sequenceBound: 1, nextNumber: 1, // 0 stays free to mean "none"
	}
	m := newMeta(fsys, false, s, n)
	if err := removeLeftovers(fsys); err != nil {
		return nil, fmt.Errorf("meta: create: %w", err)
	}
	// A copy of STORE says that a store is here, so it must not be durable
	// before NAMESPACES is.
	if err := replacePair(fsys, NamespacesFile, NamespacesCopyFile, encodeNames(n, m.key)); err != nil {
		return nil, err
	}
	if err := replacePair(fsys, StoreCopyFile, StoreFile, encodeStore(*s)); err != nil {
		return nil, err
	}
	return m, nil
}

func checkFresh(fsys vfs.FS) error {
	for _, name := range []string{StoreFile, StoreCopyFile} {
		if _, err := fsys.Stat(name); err == nil {
			return fmt.Errorf("%w: %s", ErrExists, name)
		} else if !vfs.IsNotExist(err) {
			return fmt.Errorf("meta: create: %w", err)
		}
	}
	dir, err := orphanedData(fsys)
	if err != nil {
		return fmt.Errorf("meta: create: %w", err)
	}
	if dir != "" {
		return fmt.Errorf("%w: %s is gone and %s/ has files: move the directory away, or its content", ErrExists, StoreFile, dir)
	}
	return nil
}

// orphanedData names a data directory that has entries, or "".
func orphanedData(fsys vfs.FS) (string, error) {
	for _, dir := range dataDirs {
		names, err := fsys.List(dir)
		if err != nil && !vfs.IsNotExist(err) {
			return "", err
		}
		if len(names) > 0 {
			return dir, nil
		}
	}
	return "", nil
}

// removeLeftovers removes what a crash inside replaceFile left.
func removeLeftovers(fsys vfs.FS) error {
	for _, name := range []string{StoreFile, StoreCopyFile, NamespacesFile, NamespacesCopyFile} {
		if err := removeIfThere(fsys, name+tmpSuffix); err != nil {
			return err
		}
	}
	return nil
}
