package engine

import (
	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// groupWrite is a part of a group, in one segment, on its way to the device.
type groupWrite struct {
	group *putGroup
	seg   *segment
	items []*putItem
	held  int64 // of the write gate
	done  chan struct{}
}

// startWrite writes blocks that have room, on a goroutine that the batch waits
// for in reap. Headers name their place, so they are encoded only now. With
// last there is nothing to be done while it writes, and it needs no other
// goroutine.
func (p *putBatch) startWrite(g *putGroup, seg *segment, items []*putItem, held int64, last bool) {
	g.refs.Add(1)
	w := &groupWrite{group: g, seg: seg, items: items, held: held, done: make(chan struct{})}
	p.writing = append(p.writing, w)
	if last {
		w.run(p.s)
		return
	}
	go w.run(p.s)
}

func (w *groupWrite) run(s *Store) {
	defer close(w.done)
	defer w.group.release()
	defer s.gate.leave(w.held)
	s.writeItems(w.seg, w.items)
}

// writeItems writes images that have room, neighbours at once, and ends their
// reservations; each then has its err or its placed set.
func (s *Store) writeItems(seg *segment, items []*putItem) {
	ready := make([]*putItem, 0, len(items))
	for _, it := range items {
		if it.placed, it.err = s.encodeHeader(it.img); it.err != nil {
			s.giveUp(seg, it.img.ext.Address.Page)
			continue
		}
		ready = append(ready, it)
	}
	for len(ready) > 0 {
		n := neighbours(ready)
		s.writeRun(seg, ready[:n])
		ready = ready[n:]
	}
}

// neighbours counts the blocks at the head of items that follow one another
// both in memory and in the segment.
func neighbours(items []*putItem) int {
	n := 1
	for n < len(items) {
		a, b := items[n-1].img, items[n].img
		if a.ext.Address.Page+uint32(a.ext.Pages()) != b.ext.Address.Page || a.begin+a.ext.Pages()*disk.PageBytes != b.begin {
			break
		}
		n++
	}
	return n
}

// writeRun writes neighbours at once. Where that fails all of them leave a
// hole: which of their bytes arrived is not known.
func (s *Store) writeRun(seg *segment, items []*putItem) {
	first, last := items[0].img, items[len(items)-1].img
	end := last.begin + last.ext.Pages()*disk.PageBytes
	err := seg.writer.WriteAt(first.ext.Address.Page, first.buf.Bytes()[first.begin:end])
	if err != nil {
		s.retire(seg)
		err = s.writeFailed(err)
	}
	var dead []deadExtent
	var failed []*putItem
	for _, it := range items {
		ext := &it.img.ext
		if it.err = err; err == nil {
			it.err = seg.writer.Done(ext.Address.Page, &it.placed.entry)
		}
		if it.err != nil {
			s.giveUp(seg, ext.Address.Page)
			failed = append(failed, it)
			dead = append(dead, deadExtent{ext.Address, index.Key{Namespace: ext.Namespace, Hash: string(ext.Hash)}, ext.Seq})
			continue
		}
		it.placed.seg = seg
		s.count.writtenBytes.Add(it.placed.extent.Bytes())
	}
	// A device may have written what it says it has not.
	if err := s.buryDead(dead); err != nil {
		for _, it := range failed {
			it.err = unburied(it.err, err)
		}
	}
}

// reap waits until at most n writes are under way, in order, and keeps what
// was written for the log.
func (p *putBatch) reap(n int) {
	for len(p.writing) > n {
		w := p.writing[0]
		p.writing = p.writing[1:]
		<-w.done
		for _, it := range w.items {
			p.reaped(it)
		}
	}
}

func (p *putBatch) reaped(it *putItem) {
	if it.err != nil {
		p.s.endGuest(&it.shared)
		p.fail(it, putStatus(it.err), "", it.err)
		return
	}
	ext := &it.img.ext
	e := index.Entry{Extent: it.placed.extent, Content: index.TagOf(ext.ContentID), Seq: ext.Seq, Depth: it.depth, RawBytes: ext.RawBytes()}
	if it.target != nil {
		e.Extent, e.Own = *it.target, it.placed.extent
		p.s.count.putShared.Add(1)
	}
	it.rec = &record{Kind: recordPut, Key: it.key, Entry: e, ContentID: ext.ContentID}
	it.img = nil // its memory is the group's
	p.written = append(p.written, it)
	p.writtenBytes += it.placed.extent.Bytes()
	if len(p.written) >= groupRecordsMax || p.writtenBytes >= groupBytesMax {
		p.commitWritten()
	}
}
