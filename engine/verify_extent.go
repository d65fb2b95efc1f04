package engine

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// fault is what is wrong with an extent.
type fault struct {
	kind   DamageKind // padding, unreadable, or empty: the extent itself
	offset int64
	reason string
	// What to look at again to say more: the header, or the first chunks.
	header bool
	chunks []badChunk
}

// expected verifies an extent that must be there.
func (w *segmentWalk) expected(x *expected) {
	w.extentFollows()
	if !w.v.sampled(w.i.ID, x.page) {
		w.pass(x)
		return
	}
	e, bad := w.prove(x)
	if direct := w.win.direct; bad != nil && direct != nil {
		// The path may be what is bad: the other one decides.
		w.win.readBuffered()
		if e, bad = w.prove(x); bad == nil {
			w.v.out.note("%s: reads past the page cache returned wrong bytes at page %d, reads through it the right ones", w.file(), x.page)
		} else {
			w.win.direct = direct
		}
	}
	if w.win.err != nil {
		return // nothing was found out
	}
	var disagree map[index.Key]bool
	if e != nil {
		disagree = w.agree(x, e)
	}
	w.count(x)
	w.v.verdicts(x, w.i.ID, w.verdictOf(x, bad), disagree)
	if bad == nil {
		w.unindexed(x)
		return
	}
	if x.kind() == DamageDead && w.tombs[x.page] == disk.TombstoneQuarantine {
		w.sum.QuarantinedExtents++
		return
	}
	d := x.damage(x.kind(), w.i.ID)
	if bad.kind != "" {
		d.Kind = bad.kind
	}
	d.Offset, d.Reason = bad.offset, bad.reason
	d.Diagnoses = w.diagnose(x, bad)
	w.v.out.add(d)
}

// prove reads an extent and compares it with its sums; the extent is nil
// where its header is bad.
func (w *segmentWalk) prove(x *expected) (*disk.Extent, *fault) {
	e, bad := w.expectedHeader(x)
	if bad != nil {
		return nil, bad
	}
	return e, w.payload(e)
}

func (w *segmentWalk) count(x *expected) {
	n := int64(x.pages) * disk.PageBytes
	switch x.kind() {
	case DamageBlock:
		w.sum.LiveExtents++
		w.sum.LiveBytes += n
	case DamageAlias:
		w.sum.AliasExtents++
		w.sum.AliasBytes += n
	default:
		w.sum.DeadExtents++
		w.sum.DeadBytes += n
	}
}

// expectedHeader reads and proves the header of an extent.
func (w *segmentWalk) expectedHeader(x *expected) (*disk.Extent, *fault) {
	at := disk.Address{Segment: w.i.ID, Page: x.page}
	if x.headerPages == 0 || x.headerPages > disk.MaxHeaderPages {
		return nil, &fault{offset: at.Offset(), reason: fmt.Sprintf("the index says %d header pages", x.headerPages)}
	}
	p, err := w.win.bytes(at.Offset(), int(x.headerPages)*disk.PageBytes)
	if err != nil {
		return nil, readFault(at.Offset(), "extent header", err)
	}
	e, err := disk.DecodeExtentExpect(p, w.v.s.key, x.headerSum, at, w.v.s.uuid)
	var c *disk.CorruptError
	switch {
	case errors.As(err, &c):
		return nil, &fault{offset: c.Offset, reason: reasonOf(c), header: true}
	case err != nil:
		return nil, &fault{offset: at.Offset(), reason: err.Error(), header: true}
	}
	if e.HeaderPages != x.headerPages || uint32(e.Pages()) != x.pages {
		return nil, &fault{offset: at.Offset(), reason: fmt.Sprintf("the header says %d+%d pages, the index %d in all", e.HeaderPages, e.PayloadPages, x.pages)}
	}
	return e, nil
}

func readFault(off int64, what string, err error) *fault {
	f := &fault{offset: off, reason: what + ": " + err.Error()}
	if !errors.Is(err, errCut) {
		f.kind = DamageUnreadable
	}
	return f
}

// payload verifies every chunk, the chain up to the content id, and that the
// fill between planes is zero. It goes on behind a bad chunk to count them.
func (w *segmentWalk) payload(e *disk.Extent) *fault {
	var first, padding *fault
	if !chainHolds(e) {
		first = &fault{offset: e.Address.Offset(), reason: "the content id is not that of the chunk sums"}
	}
	if e.Kind == disk.KindAlias {
		return first
	}
	base := e.Address.Offset() + int64(e.HeaderPages)*disk.PageBytes
	bad := 0
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	e.EachChunk(0, len(e.Chunks), func(c disk.StoredChunk) bool {
		off := base + c.PayloadOff
		stored, fill, err := w.chunk(off, c)
		if err != nil {
			if first == nil {
				first = readFault(off, fmt.Sprintf("chunk %d of %d", c.Index, len(e.Chunks)), err)
			}
			return false
		}
		if err = verifyChunk(scratch, stored, e, c); err != nil {
			bad++
			if first == nil {
				first = &fault{offset: off, reason: fmt.Sprintf("chunk %d of %d: %s", c.Index, len(e.Chunks), chunkReason(err))}
			}
			if len(first.chunks) < maxExtentDiagnoses {
				first.chunks = append(first.chunks, badChunk{c, off, storedSum(e, c)})
			}
		}
		if padding == nil && !allZero(fill) {
			padding = &fault{kind: DamagePadding, offset: off + int64(c.StoredLen), reason: "the fill behind a plane is not zero"}
		}
		return true
	})
	if bad > 1 {
		first.reason += fmt.Sprintf(" (%d chunks are bad)", bad)
	}
	if first != nil {
		return first
	}
	return padding
}

// verifyChunk verifies the stored bytes of a chunk, and what they decode to.
func verifyChunk(scratch *[sums.ChunkBytes]byte, stored []byte, e *disk.Extent, c disk.StoredChunk) error {
	entry := e.Chunks[c.Index]
	if entry.StoredRaw(e.Codec, c.RawLen) {
		return disk.VerifyStored(stored, e.Codec, entry, c.RawLen)
	}
	return disk.DecodeChunk(scratch[:c.RawLen], stored, e.Codec, entry, c.RawLen)
}

// storedSum is the sum that the stored bytes of a chunk should have.
func storedSum(e *disk.Extent, c disk.StoredChunk) uint64 {
	if entry := &e.Chunks[c.Index]; !entry.StoredRaw(e.Codec, c.RawLen) {
		return entry.StoredSum
	}
	return e.Chunks[c.Index].RawSum
}

// chunk returns the stored bytes of a chunk at off in the file, and what fills
// up the last page of its plane.
func (w *segmentWalk) chunk(off int64, c disk.StoredChunk) (stored, fill []byte, err error) {
	skip := off & (disk.PageBytes - 1)
	end := skip + int64(c.StoredLen)
	p, err := w.win.bytes(off-skip, int(end+disk.PageBytes-1)&^(disk.PageBytes-1))
	if err != nil {
		return nil, nil, err
	}
	if c.EndsPlane {
		fill = p[end:]
	}
	return p[skip:end], fill, nil
}

// chunkReason is what a chunk's error says beside its place.
func chunkReason(err error) string {
	var c *disk.CorruptError
	if errors.As(err, &c) && c.Err != nil {
		return c.Err.Error()
	}
	return err.Error()
}

func chainHolds(e *disk.Extent) bool {
	lens := make([]int64, len(e.Planes))
	for i := range e.Planes {
		lens[i] = e.Planes[i].RawBytes
	}
	raw := make([]uint64, len(e.Chunks))
	for i := range e.Chunks {
		raw[i] = e.Chunks[i].RawSum
	}
	return sums.Content(lens, raw) == e.ContentID
}

// agree compares what the index and the footer say of an extent with its
// header, which was proven by the index's sum. It returns the keys whose
// entries the header contradicts.
func (w *segmentWalk) agree(x *expected, e *disk.Extent) map[index.Key]bool {
	w.listed(x)
	if x.footer != nil && !sameEntry(x.footer, disk.EntryOf(e, x.headerSum)) {
		w.footerDisagrees(x, "the footer's entry is not that of the extent")
	}
	disagree := map[index.Key]bool{}
	for i := range x.blocks {
		if !w.agreeKey(x, &x.blocks[i], e, disk.KindFull) {
			disagree[x.blocks[i].Key] = true
		}
	}
	if x.alias != nil && !w.agreeKey(x, x.alias, e, disk.KindAlias) {
		disagree[x.alias.Key] = true
	}
	return disagree
}

// listed reports an extent that is in use and that a sound footer leaves out.
func (w *segmentWalk) listed(x *expected) {
	if x.footer == nil && w.i.Sealed && !w.badFooter {
		w.footerDisagrees(x, "the footer does not list an extent that is in use")
	}
}

func (w *segmentWalk) footerDisagrees(x *expected, reason string) {
	d := x.damage(DamageFooter, w.i.ID)
	d.Offset, d.Reason = int64(w.endPage)*disk.PageBytes, reason
	w.v.out.add(d)
}

// agreeKey compares a key's entry with the header that it leads to. Bytes that
// are shared stand under somebody else's key.
func (w *segmentWalk) agreeKey(x *expected, k *index.KeyEntry, e *disk.Extent, kind disk.Kind) bool {
	own := kind == disk.KindAlias || !k.IsAlias()
	reason := ""
	switch {
	case e.Kind != kind:
		reason = fmt.Sprintf("a %v extent in place of a %v one", e.Kind, kind)
	case index.TagOf(e.ContentID) != k.Content || e.RawBytes() != k.RawBytes:
		reason = fmt.Sprintf("content %x of %d bytes, the index says %x… of %d", e.ContentID, e.RawBytes(), k.Content, k.RawBytes)
	case own && (e.Namespace != k.Namespace || string(e.Hash) != k.Hash):
		reason = fmt.Sprintf("the extent is of block %x in namespace %d", e.Hash, e.Namespace)
	case own && (e.Seq != k.Seq || e.Depth != k.Depth):
		reason = fmt.Sprintf("sequence %d and depth %d, the index says %d and %d", e.Seq, e.Depth, k.Seq, k.Depth)
	default:
		return true
	}
	w.v.out.add(Damage{Kind: x.kind(), File: w.file(), Offset: int64(x.page) * disk.PageBytes, Segment: w.i.ID, Page: x.page,
		Namespace: k.Namespace, Hash: fmt.Sprintf("%x", k.Hash), Blocks: 1, Reason: reason})
	return false
}

func sameEntry(a *disk.FooterEntry, b disk.FooterEntry) bool {
	return a.Page == b.Page && a.HeaderPages == b.HeaderPages && a.PayloadPages == b.PayloadPages && a.Kind == b.Kind &&
		a.Namespace == b.Namespace && a.Depth == b.Depth && a.Seq == b.Seq && a.HeaderSum == b.HeaderSum &&
		a.ContentID == b.ContentID && a.RawBytes == b.RawBytes && bytes.Equal(a.Hash, b.Hash) && bytes.Equal(a.Parent, b.Parent)
}

// orphan looks at an extent that neither index nor footer knows: dropped, or
// never logged, or never durable. If it does not verify it counts as torn by a
// power cut; that it was whole once nothing proves. Without an index a rebuild
// keeps what is whole and not known to be gone.
func (w *segmentWalk) orphan(e *disk.Extent) {
	w.extentFollows()
	x := &expected{page: e.Address.Page, pages: uint32(e.Pages())}
	bad := w.payload(e)
	if w.win.err != nil {
		return
	}
	if bad != nil && bad.kind != DamagePadding {
		w.sum.TornExtents++
		w.sum.DeadBytes += int64(x.pages) * disk.PageBytes
		w.v.verdict(orphanVerdict(e, VerdictTorn))
		return
	}
	k := index.KeyEntry{Key: index.Key{Namespace: e.Namespace, Hash: string(e.Hash)}, Entry: index.Entry{Seq: e.Seq, RawBytes: e.RawBytes()}}
	if _, buried := w.tombs[x.page]; w.v.rec.lost != "" && !w.i.Sealed && !buried && !w.v.gone(k) {
		w.blocks++
		if e.Kind == disk.KindAlias {
			k.Own = index.Extent{Address: e.Address}
			x.alias = &k
		} else {
			x.blocks = []index.KeyEntry{k}
		}
	}
	w.count(x)
	if x.kind() == DamageDead {
		w.v.verdict(orphanVerdict(e, VerdictOrphan))
	} else {
		w.v.verdicts(x, w.i.ID, VerdictOK, nil)
	}
}

func allZero(p []byte) bool {
	const step = 4096
	var zero [step]byte
	for len(p) > step {
		if !bytes.Equal(p[:step], zero[:]) {
			return false
		}
		p = p[step:]
	}
	return bytes.Equal(p, zero[:len(p)])
}
