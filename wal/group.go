package wal

import "encoding/binary"

// group is one verified group in a file's image.
type group struct {
	lsn, end LSN
	frames   []byte // record frames and commit frame
	commit   commit
}

// defect says why the bytes at an offset of a file are no group.
type defect struct {
	off    int // of the frame at fault
	reason string
}

// parseGroup verifies the group at offset off of the file image data.
func parseGroup(h *header, data []byte, off int, chain uint64) (group, *defect) {
	start, records := off, uint32(0)
	for {
		rest := data[off:]
		if len(rest) < commitFrameBytes { // each group ends in one
			return group{}, &defect{off, "file ends within a group"}
		}
		if c, ok := decodeCommit(rest, h.salt, h.lsnAt(off)); ok {
			return closeGroup(h, data, start, off, records, c, chain)
		}
		n, reason := recordLength(rest)
		if reason != "" {
			return group{}, &defect{off, reason}
		}
		off += int(frameBytes(n))
		records++
	}
}

// closeGroup checks the commit frame at off against the group that it ends.
func closeGroup(h *header, data []byte, start, off int, records uint32, c commit, chain uint64) (group, *defect) {
	end := off + commitFrameBytes
	switch {
	case int64(c.groupBytes) != int64(end-start):
		return group{}, &defect{off, "commit frame ends a group of another length"}
	case c.records != records:
		return group{}, &defect{off, "commit frame ends a group of another number of records"}
	case c.chainSum != chainSum(chain, data[start:off+commitChainSumOff]):
		return group{}, &defect{start, "group does not match its chained sum"}
	}
	return group{lsn: h.lsnAt(start), end: h.lsnAt(end), frames: data[start:end], commit: c}, nil
}

// each calls fn with every record of the group, in order.
func (g *group) each(fn func(Record) error) error {
	for off, i := 0, uint32(0); i < g.commit.records; i++ {
		n := int(uint32(binary.LittleEndian.Uint64(g.frames[off:])))
		p := g.frames[off+frameHeaderBytes:]
		if err := fn(Record{LSN: g.lsn + LSN(off), End: g.end, Data: p[:n:n]}); err != nil {
			return err
		}
		off += int(frameBytes(n))
	}
	return nil
}

// lsnAt is the LSN of an offset in the file; offset is behind the header.
func (h *header) lsnAt(off int) LSN { return h.base + LSN(off-headerBytes) }

// syncedBehind looks from offset off on for commit frames that this log wrote
// and returns the largest position that one of them knew to be durable.
func syncedBehind(h *header, data []byte, off int) LSN {
	var largest LSN
	for ; off+commitFrameBytes <= len(data); off += frameAlign {
		if binary.LittleEndian.Uint64(data[off:]) != commitFrameHeader {
			continue
		}
		if c, ok := decodeCommit(data[off:], h.salt, h.lsnAt(off)); ok {
			largest = max(largest, c.synced)
		}
	}
	return largest
}
