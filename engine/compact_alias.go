package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// moveAlias copies the page of an alias into the segment of moved blocks and
// logs the move. Its bytes, which lie elsewhere, stay where they are, and so
// does the put sequence.
func (s *Store) moveAlias(ctx context.Context, k index.KeyEntry) error {
	ext, err := s.aliasHeader(ctx, k)
	if err != nil {
		return err
	}
	ext.Kind, ext.Target = disk.KindAlias, k.Address // the target is a hint; it may have moved since
	ext.Repage()
	buf, err := s.movePool.Get(ctx, ext.Pages()*disk.PageBytes)
	if err != nil {
		return fmt.Errorf("%w: buffer for a move: %w", ErrShed, err)
	}
	img := &image{ext: *ext, buf: buf, decided: true}
	defer img.free()
	place, err := s.appendMoved(ctx, img)
	if err != nil {
		return err
	}
	return s.logMove(k, k.Own.Address, place)
}

// aliasHeader reads an alias's own page. Where that does not verify (a get
// does not need it) the header is made anew from that of the bytes; the
// parent's hash and the plain key, which stand nowhere else, are lost then.
func (s *Store) aliasHeader(ctx context.Context, k index.KeyEntry) (*disk.Extent, error) {
	own, err := s.readHeader(ctx, k.Own)
	if err == nil || !errors.Is(err, ErrCorrupt) {
		return own, err
	}
	target, err := s.readHeader(ctx, k.Extent)
	if err != nil {
		return nil, err
	}
	target.Namespace, target.Hash, target.Parent = k.Namespace, []byte(k.Hash), nil
	target.PlainKey = nil
	target.Seq, target.Depth = k.Seq, k.Depth
	return target, nil
}

// keptKeys is what stands in an alias's own header alone: its parent's hash and
// its plain key. Where that can not be read the block is moved without them.
func (s *Store) keptKeys(ctx context.Context, k index.KeyEntry) (parent, plainKey []byte) {
	own, err := s.aliasHeader(ctx, k)
	if err != nil {
		return nil, nil
	}
	return own.Parent, own.PlainKey
}

// readHeader reads and verifies the header pages of an extent.
func (s *Store) readHeader(ctx context.Context, e index.Extent) (ext *disk.Extent, err error) {
	err = s.retryCorrupt(nil, func(path *ioPath) error {
		buf, err := s.rawRead(ctx, path, s.movePool.Get, e, 0, int64(e.HeaderPages)*disk.PageBytes)
		if err != nil {
			return err
		}
		defer buf.Free()
		ext, err = s.decodeHeader(buf.Bytes()[:int(e.HeaderPages)*disk.PageBytes], e)
		return err
	})
	return ext, err
}
