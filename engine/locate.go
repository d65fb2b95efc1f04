package engine

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Location says where a stored block lies, for tools that look at or damage a
// closed store. Offsets are in bytes from the beginning of the file; files are
// named within the store's directory.
type Location struct {
	Namespace uint32 `json:"namespace"`
	Hash      string `json:"hash"` // hexadecimal

	File          string `json:"file"`
	Segment       uint64 `json:"segment"`
	Page          uint32 `json:"page"`
	HeaderOffset  int64  `json:"header_offset"`
	HeaderBytes   int64  `json:"header_bytes"`
	PayloadOffset int64  `json:"payload_offset"`
	PayloadBytes  int64  `json:"payload_bytes"` // padding of the planes included

	HeaderSum string `json:"header_sum"` // hexadecimal, as the index has it
	// ContentID is the first half of the content id: the index holds no more.
	ContentID string `json:"content_id"` // hexadecimal
	Sequence  uint64 `json:"sequence"`
	Depth     uint32 `json:"depth"`
	RawBytes  int64  `json:"raw_bytes"`

	// Alias: the bytes are shared with an equal block, and the extent that was
	// written for this key is a header alone, at AliasFile and AliasOffset.
	Alias       bool   `json:"alias"`
	AliasFile   string `json:"alias_file,omitempty"`
	AliasOffset int64  `json:"alias_offset,omitempty"`

	aliasSegment uint64
}

// Locate finds a block of a closed store by its namespace's number and its
// hash, as the index has it; no byte of the block is read or verified. The
// directory is not changed. Errors: ErrMiss (not stored), ErrLocked,
// ErrNoStore, ErrDamaged, ErrUnsupported, those of the file system.
func Locate(dir string, namespace uint32, hash []byte) (*Location, error) {
	return locate(dir, privateOptions{}, namespace, hash)
}

func locate(dir string, private privateOptions, namespace uint32, hash []byte) (l *Location, err error) {
	f, err := openOffline(dir, private)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	return f.locate(index.Key{Namespace: namespace, Hash: string(hash)})
}

func (f *offline) locate(k index.Key) (*Location, error) {
	ctx, cancel := openContext()
	defer cancel()
	e, err := f.entry(ctx, k)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, fmt.Errorf("engine: block %x in namespace %d: %w", k.Hash, k.Namespace, ErrMiss)
	}
	return locationOf(k, e), nil
}

func locationOf(k index.Key, e *index.Entry) *Location {
	header := int64(e.HeaderPages) * disk.PageBytes
	l := &Location{
		Namespace: k.Namespace, Hash: hex.EncodeToString([]byte(k.Hash)),
		File: disk.SegmentName(e.Address.Segment), Segment: e.Address.Segment, Page: e.Address.Page,
		HeaderOffset: e.Address.Offset(), HeaderBytes: header,
		PayloadOffset: e.Address.Offset() + header, PayloadBytes: e.Bytes() - header,
		HeaderSum: fmt.Sprintf("%016x", e.HeaderSum), ContentID: hex.EncodeToString(e.Content[:]),
		Sequence: e.Seq, Depth: e.Depth, RawBytes: e.RawBytes,
	}
	if e.IsAlias() {
		l.Alias, l.AliasFile, l.AliasOffset = true, disk.SegmentName(e.Own.Address.Segment), e.Own.Address.Offset()
		l.aliasSegment = e.Own.Address.Segment
	}
	return l
}
