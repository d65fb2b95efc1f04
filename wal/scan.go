package wal

import (
	"bytes"
	"fmt"
)

// Torn describes the tail of a log that a crash cut off: bytes that were
// written but never durable. It is normal, and nothing acknowledged as
// durable is in it.
type Torn struct {
	File         string // path within the file system
	Offset       int64  // start of the first group that is not whole
	DroppedBytes int64  // from Offset to the last byte that is not zero
	Reason       string
}

func (t *Torn) String() string {
	return fmt.Sprintf("%s: torn at offset %d, %d bytes dropped: %s", t.File, t.Offset, t.DroppedBytes, t.Reason)
}

// scanned is what one file's image turned out to hold.
type scanned struct {
	end          LSN
	chain        uint64 // sum at end
	groups       int
	records      int
	synced, mark LSN
	torn         *Torn
	corrupt      *CorruptionError
}

// image is the content of one log file with a sound header.
type image struct {
	file      string // path, for messages
	h         header
	data      []byte // the first min(sizeBytes, h.segmentBytes) bytes
	sizeBytes int64
	next      *header // of the file that continues this one, or nil
}

// scan verifies the groups of an image in order, calls visit with each, and
// judges how the file ends. The error is visit's.
func (m *image) scan(visit func(*group) error) (scanned, error) {
	s := scanned{end: m.h.base, chain: m.h.sum, synced: m.h.base}
	off := headerBytes
	var bad *defect
	for m.next == nil || s.end < m.next.base {
		if m.atEnd(off) {
			break
		}
		g, d := parseGroup(&m.h, m.data, off, s.chain)
		if d == nil && m.next != nil && g.end > m.next.base {
			d = &defect{off, "group reaches past the start of the next file"}
		}
		if d != nil {
			bad = d
			break
		}
		if err := visit(&g); err != nil {
			return s, err
		}
		off += len(g.frames)
		s.groups, s.records = s.groups+1, s.records+int(g.commit.records)
		s.end, s.chain = g.end, g.commit.chainSum
		s.synced, s.mark = max(s.synced, g.commit.synced), max(s.mark, g.commit.mark)
	}
	if m.next != nil {
		m.judgeContinued(&s, off, bad)
	} else {
		m.judgeLast(&s, off, bad)
	}
	return s, nil
}

// atEnd reports whether no group starts at off: no room for one, or zeros.
func (m *image) atEnd(off int) bool {
	rest := m.data[min(off, len(m.data)):]
	return len(rest) < commitFrameBytes || bytes.Equal(rest[:frameHeaderBytes], zeros[:frameHeaderBytes])
}

// judgeContinued: a file that another one continues was durable as a whole,
// and ends where that one starts.
func (m *image) judgeContinued(s *scanned, off int, bad *defect) {
	switch {
	case bad != nil:
		s.corrupt = m.corruption(bad.off, s.end, bad.reason)
	case s.end != m.next.base:
		s.corrupt = m.corruption(off, s.end, fmt.Sprintf("log ends here, but the next file starts at LSN %d", uint64(m.next.base)))
	case s.chain != m.next.prevSum:
		s.corrupt = m.corruption(off, s.end, "the next file continues a log with another sum")
	default:
		s.synced = max(s.synced, s.end)
		m.noteTail(s, off)
	}
}

// judgeLast: the last file of a log may end in a torn tail, from the first
// position on that was never known to be durable.
func (m *image) judgeLast(s *scanned, off int, bad *defect) {
	if bad == nil && lastNonZero(m.data, off) < 0 {
		m.judgeSize(s, off)
		return
	}
	if bad == nil {
		bad = &defect{off, "no frame, but bytes that are not zero"}
	}
	s.synced = max(s.synced, syncedBehind(&m.h, m.data, off))
	if s.synced > s.end {
		s.corrupt = m.corruption(bad.off, s.end, fmt.Sprintf("%s, but the log was durable up to LSN %d", bad.reason, uint64(s.synced)))
		return
	}
	if m.short() {
		s.corrupt = m.corruption(len(m.data), s.end, m.shortReason())
		return
	}
	s.torn = m.tornAt(off, bad.reason)
}

// judgeSize: the whole size is durable before the first frame is written. A
// shorter file is a creation that a crash cut off, or, with frames, cut.
func (m *image) judgeSize(s *scanned, off int) {
	switch {
	case m.short() && s.groups > 0:
		s.corrupt = m.corruption(len(m.data), s.end, m.shortReason())
	default:
		m.noteTail(s, off)
	}
}

// noteTail reports what should not be behind the end, but harms nothing.
func (m *image) noteTail(s *scanned, off int) {
	switch {
	case lastNonZero(m.data, off) >= 0:
		s.torn = m.tornAt(off, "bytes behind the end of the log are not zero")
	case m.short():
		s.torn = m.tornAt(len(m.data), m.shortReason())
	case m.sizeBytes > m.h.segmentBytes:
		s.torn = m.tornAt(len(m.data), fmt.Sprintf("file has %d bytes, its header says %d", m.sizeBytes, m.h.segmentBytes))
		s.torn.DroppedBytes = m.sizeBytes - m.h.segmentBytes
	}
}

func (m *image) short() bool { return m.sizeBytes < m.h.segmentBytes }

func (m *image) shortReason() string {
	return fmt.Sprintf("file is cut short: %d of %d bytes", m.sizeBytes, m.h.segmentBytes)
}

func (m *image) tornAt(off int, reason string) *Torn {
	off = min(off, len(m.data))
	return &Torn{File: m.file, Offset: int64(off), DroppedBytes: int64(max(lastNonZero(m.data, off)+1-off, 0)), Reason: reason}
}

func (m *image) corruption(off int, lsn LSN, reason string) *CorruptionError {
	return &CorruptionError{File: m.file, Offset: int64(off), LSN: lsn, Reason: reason}
}

var zeros [4096]byte

// lastNonZero is the index of the last byte of p[from:] (counted in p) that is
// not zero, or -1.
func lastNonZero(p []byte, from int) int {
	end := len(p)
	for end > from {
		start := max(from, end-len(zeros))
		if !bytes.Equal(p[start:end], zeros[:end-start]) {
			break
		}
		end = start
	}
	for end--; end >= from; end-- {
		if p[end] != 0 {
			return end
		}
	}
	return -1
}
