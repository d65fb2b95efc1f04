package disk

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// SyncOld makes the content and the name of an unsealed segment of an earlier
// run durable: a process that was killed may have left both in memory only.
func (v *Volume) SyncOld(id uint64) error {
	err := v.syncUnsealed(id)
	if err != nil {
		return fmt.Errorf("disk: sync old segment %016x: %w", id, err)
	}
	return nil
}

func (v *Volume) syncUnsealed(id uint64) (err error) {
	if _, err := v.sealable(id); err != nil {
		return err
	}
	if err := v.cache.reserve(1); err != nil {
		return err
	}
	defer v.cache.unreserve(1)
	f, err := v.o.FS.Open(SegmentName(id), vfs.ReadWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return v.syncOld(f, id)
}
