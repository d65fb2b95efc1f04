package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// segmentWalk goes through one segment page by page.
type segmentWalk struct {
	v     *verifier
	i     disk.SegmentInfo
	win   *window
	want  []*expected                   // what is left of it
	tombs map[uint32]disk.TombstoneKind // by page
	// sidecarErr says what is wrong with the tombstones' file.
	sidecarErr error
	sum        SegmentTotals
	// endPage is where the extents end: the footer, or the end of the file.
	endPage   uint32
	badFooter bool // reported
	blocks    int64
	// passedBytes were left out, as they are not in the sample. inRun is the end
	// of the pages without expected extents that are.
	passedBytes, passedExtents int64
	inRun                      uint32
}

// segment verifies one segment. Errors are those that end everything.
func (v *verifier) segment(ctx context.Context, i disk.SegmentInfo) error {
	h, err := v.s.vol.Acquire(i.ID)
	if err != nil {
		v.out.err(DamageUnreadable, disk.SegmentName(i.ID), i.ID, err)
		return v.unreadable(ctx, i)
	}
	defer h.Release()
	w := &segmentWalk{v: v, i: i}
	w.win, err = newWindow(h, i.SizeBytes, func(n int64) error { return v.pace.wait(ctx, n) }, v.advance)
	if err != nil {
		return err
	}
	defer w.win.buf.Free()
	err = w.run(ctx)
	if err == nil {
		err = v.blockError()
	}
	if err != nil {
		w.abandon()
		return err
	}
	w.report()
	v.advance(i.SizeBytes - w.win.readBytes) // what lies behind the last read, and what was left out
	return nil
}

// unreadable tells of the blocks of a segment whose file cannot be opened.
func (v *verifier) unreadable(ctx context.Context, i disk.SegmentInfo) error {
	want, err := v.expectations(ctx, i.ID, nil)
	if err != nil {
		return err
	}
	for _, x := range want {
		v.verdicts(x, i.ID, VerdictUnreadable, nil)
	}
	v.advance(i.SizeBytes)
	return v.blockError()
}

func (w *segmentWalk) run(ctx context.Context) error {
	w.header()
	if errors.Is(w.i.HeaderErr, disk.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, w.i.HeaderErr)
	}
	if err := w.sidecar(); err != nil {
		return err
	}
	footer, err := w.footer()
	if err != nil {
		return err
	}
	if w.want, err = w.v.expectations(ctx, w.i.ID, footer); err != nil {
		return err
	}
	if w.v.rec.lost != "" {
		dropBuried(w.want, w.tombs)
	}
	w.countBlocks()
	if err := w.walk(ctx); err != nil {
		return err
	}
	w.judgeFile()
	return nil
}

// header reads the header page; whether it is a good one is known already.
func (w *segmentWalk) header() {
	if _, err := w.win.bytes(0, disk.PageBytes); err == nil {
		w.sum.HeaderBytes = disk.PageBytes
	}
}

// footer reads the footer of a sealed segment.
func (w *segmentWalk) footer() ([]disk.FooterEntry, error) {
	w.endPage = uint32(w.i.SizeBytes / disk.PageBytes)
	if !w.i.Sealed {
		return nil, nil
	}
	page := make([]byte, disk.PageBytes) // beside the window, which only moves on
	if err := readFullAt(w.win.buffered, page, w.i.SizeBytes-disk.PageBytes); err != nil {
		w.v.out.err(DamageUnreadable, w.file(), w.i.ID, err)
		return nil, nil
	}
	start, size, err := disk.DecodeTrailer(page, w.v.s.key, w.v.s.uuid, w.i.ID)
	if err == nil {
		w.endPage, w.sum.FooterBytes = start, size
	}
	entries, err := w.v.s.vol.ReadFooter(w.i.ID)
	if errors.Is(err, disk.ErrUnsupported) {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	if err != nil {
		w.footerDamaged(err)
	}
	return entries, nil
}

// sidecar reads the tombstones of the segment.
func (w *segmentWalk) sidecar() error {
	ts, err := w.v.s.vol.ReadTombstones(w.i.ID)
	if errors.Is(err, disk.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	w.sidecarErr = err
	w.sum.Tombstones = int64(len(ts))
	w.tombs = tombstonesByPage(ts)
	return nil
}

// tombstonesByPage is what each page has a tombstone of; a quarantine counts
// more than others.
func tombstonesByPage(ts []disk.Tombstone) map[uint32]disk.TombstoneKind {
	m := map[uint32]disk.TombstoneKind{}
	for _, t := range ts {
		if m[t.Page] != disk.TombstoneQuarantine {
			m[t.Page] = t.Kind
		}
	}
	return m
}

func (w *segmentWalk) file() string { return disk.SegmentName(w.i.ID) }

// footerDamaged reports a bad footer. In a file that was cut behind it, it was
// durable once. In one of full size a power cut may have torn it, where it
// fills the file to its end: nothing is lost with it, as a rebuild then reads
// the extents.
func (w *segmentWalk) footerDamaged(err error) {
	switch {
	case w.badFooter:
	case w.i.SizeBytes < w.v.s.room.segmentBytes:
		w.v.out.err(DamageFooter, w.file(), w.i.ID, err)
	default:
		w.v.out.note("%s: torn by a crash while it was sealed, or damaged: %v", w.file(), err)
	}
	w.badFooter = true
}

// walk looks at every page between header and footer: extents that must be
// there, extents that are there all the same, and pages that are neither.
func (w *segmentWalk) walk(ctx context.Context) error {
	for page := uint32(1); page < w.endPage || len(w.want) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case len(w.want) > 0 && (w.want[0].page <= page || page >= w.endPage):
			x := w.want[0]
			w.want = w.want[1:]
			w.expected(x)
			page = max(page, x.end())
			if w.win.err != nil {
				return w.win.err
			}
		default:
			limit := w.endPage
			if len(w.want) > 0 {
				limit = min(limit, w.want[0].page)
			}
			if w.passRun(page, limit) {
				page = limit
				continue
			}
			next, err := w.unlisted(page, limit)
			if err != nil {
				return err
			}
			page = next
		}
	}
	return nil
}

// unlisted looks at a page where nothing is expected and returns the next.
func (w *segmentWalk) unlisted(page, limit uint32) (uint32, error) {
	off := int64(page) * disk.PageBytes
	p, err := w.win.bytes(off, disk.PageBytes)
	if w.win.err != nil {
		return 0, w.win.err
	}
	if err != nil {
		d := Damage{Kind: DamageUnreadable, File: w.file(), Segment: w.i.ID, Offset: off, Reason: err.Error()}
		w.v.out.add(d)
		return limit, nil
	}
	if disk.IsFooterPage(p) {
		if n := w.looseFooter(page); n > 0 {
			return page + n, nil
		}
		p, err = w.win.bytes(off, disk.PageBytes)
		if err != nil {
			return limit, nil
		}
	}
	if n, err := disk.PeekExtent(p); err == nil && page+uint32(n) <= limit {
		e, err := w.headerAt(page, n)
		if errors.Is(err, disk.ErrUnsupported) {
			return 0, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		if err == nil && int64(page)+int64(e.Pages()) <= int64(limit) {
			w.orphan(e)
			return page + uint32(e.Pages()), w.win.err
		}
	}
	w.gap(page)
	return page + 1, nil
}

// headerAt decodes the header at a page if it is one of this place.
func (w *segmentWalk) headerAt(page uint32, pages int) (*disk.Extent, error) {
	p, err := w.win.bytes(int64(page)*disk.PageBytes, pages*disk.PageBytes)
	if err != nil {
		return nil, err
	}
	e, _, err := disk.DecodeExtent(p, w.v.s.key)
	if err != nil {
		return nil, err
	}
	if at := (disk.Address{Segment: w.i.ID, Page: page}); e.Address != at || e.StoreUUID != w.v.s.uuid {
		return nil, errors.New("it belongs elsewhere")
	}
	return e, nil
}

// gap counts a page that is no extent's.
func (w *segmentWalk) gap(page uint32) {
	if w.i.Sealed {
		w.sum.GapBytes += disk.PageBytes
	} else {
		w.sum.TailBytes += disk.PageBytes // a gap after all, if an extent follows
	}
	p, err := w.win.bytes(int64(page)*disk.PageBytes, disk.PageBytes)
	if err == nil && !allZero(p) {
		w.sum.NonzeroUnusedBytes += disk.PageBytes
	}
}

// extentFollows turns what was taken for the tail into a gap.
func (w *segmentWalk) extentFollows() {
	w.sum.GapBytes += w.sum.TailBytes
	w.sum.TailBytes = 0
}

// looseFooter looks at what may be a footer in a segment that is not sealed: a
// crash came between the footer and the cut of the file behind it. It returns
// the footer's pages, 0 if it is none.
func (w *segmentWalk) looseFooter(page uint32) uint32 {
	off := int64(page) * disk.PageBytes
	p, err := w.win.bytes(off, disk.PageBytes)
	if err != nil {
		return 0
	}
	n, err := disk.FooterPages(p)
	if err != nil || n > windowBytes/disk.PageBytes || page+uint32(n) > w.endPage {
		return 0
	}
	if p, err = w.win.bytes(off, n*disk.PageBytes); err != nil {
		return 0
	}
	_, err = disk.DecodeFooter(p, w.i.ID, page, w.v.s.uuid, w.v.s.key)
	if err != nil && page+uint32(n) != w.endPage {
		return 0
	}
	if err != nil { // it ends where a sealed file does
		w.footerDamaged(err)
	}
	w.sum.FooterBytes += int64(n) * disk.PageBytes
	return uint32(n)
}

// judgeFile looks at the files as a whole, once it is known what is in them. A
// segment without extents may be one whose creation a crash has cut off, with
// parts of either file missing.
func (w *segmentWalk) judgeFile() {
	empty := w.sum.LiveExtents+w.sum.AliasExtents+w.sum.DeadExtents+w.sum.TornExtents+w.passedExtents == 0
	w.judgeSidecar(empty)
	if empty {
		if w.i.HeaderErr != nil {
			w.v.out.note("%s was never finished: it has no header and no extents", w.file())
		}
		return
	}
	if w.i.HeaderErr != nil {
		w.v.out.err(DamageSegment, w.file(), w.i.ID, w.i.HeaderErr)
	}
	if want := w.v.s.room.segmentBytes; !w.i.Sealed && w.i.SizeBytes < want && !w.badFooter {
		w.badFooter = true
		w.v.out.add(Damage{Kind: DamageFooter, File: w.file(), Offset: w.i.SizeBytes, Segment: w.i.ID,
			Reason: fmt.Sprintf("the file has %d bytes in place of %d and does not end with a trailer: it is cut short, or its last page is damaged", w.i.SizeBytes, want)})
	}
}

func (w *segmentWalk) judgeSidecar(empty bool) {
	name := disk.SidecarName(w.i.ID)
	var bad *disk.CorruptError
	switch {
	case w.sidecarErr == nil:
	case vfs.IsNotExist(w.sidecarErr):
		if !empty {
			w.v.out.add(Damage{Kind: DamageTombstones, File: name, Offset: -1, Segment: w.i.ID, Reason: "the file is missing"})
		}
	case errors.As(w.sidecarErr, &bad):
		if !empty || bad.Offset >= disk.TombstoneHeaderBytes {
			w.v.out.err(DamageTombstones, name, w.i.ID, w.sidecarErr)
		}
	default:
		w.v.out.err(DamageUnreadable, name, w.i.ID, w.sidecarErr)
	}
}

// dropBuried takes the claims off extents with a tombstone of their own, such
// as the source of a move, where there is no index to know.
func dropBuried(want []*expected, tombs map[uint32]disk.TombstoneKind) {
	for _, x := range want {
		if _, dead := tombs[x.page]; dead {
			x.blocks, x.alias = nil, nil
		}
	}
}

// countBlocks counts keys where their bytes are.
func (w *segmentWalk) countBlocks() {
	for _, x := range w.want {
		w.blocks += int64(len(x.blocks))
		if x.alias != nil && w.v.rec.lost != "" {
			w.blocks++
		}
	}
}

// abandon counts what was read of a segment that was not finished.
func (w *segmentWalk) abandon() {
	w.v.out.mu.Lock()
	defer w.v.out.mu.Unlock()
	w.v.out.r.ReadBytes += w.win.readBytes
}

// report adds the segment to the totals.
func (w *segmentWalk) report() {
	w.v.out.mu.Lock()
	defer w.v.out.mu.Unlock()
	r, t, s := w.v.out.r, &w.v.out.r.Segments, &w.sum
	r.Blocks += w.blocks
	r.ReadBytes += w.win.readBytes
	r.NotReadBytes += w.passedBytes
	t.PassedBytes += w.passedBytes
	t.Files++
	t.Tombstones += s.Tombstones
	if w.i.Sealed {
		t.Sealed++
	}
	t.FileBytes += w.i.SizeBytes
	t.HeaderBytes += s.HeaderBytes
	t.LiveBytes += s.LiveBytes
	t.AliasBytes += s.AliasBytes
	t.DeadBytes += s.DeadBytes
	t.GapBytes += s.GapBytes
	t.FooterBytes += s.FooterBytes
	t.TailBytes += s.TailBytes
	t.LiveExtents += s.LiveExtents
	t.AliasExtents += s.AliasExtents
	t.DeadExtents += s.DeadExtents
	t.TornExtents += s.TornExtents
	t.QuarantinedExtents += s.QuarantinedExtents
	t.NonzeroUnusedBytes += s.NonzeroUnusedBytes
}
