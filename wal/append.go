package wal

import "fmt"

// Append writes the records as one group and returns the LSN of the first and
// the end of the group. On return the bytes are in the page cache: they
// survive the process; Sync makes them durable. The records are not kept.
//
// A record has 1 to MaxRecordBytes bytes (ErrEmpty, ErrTooLarge), and the group
// with 8 bytes and padding a record and two commit frames fits in a file
// (ErrTooLarge); these leave the log usable. A failed write poisons it.
func (l *Log) Append(records ...[]byte) (first, end LSN, err error) {
	if err := l.checkRecords(records); err != nil {
		return 0, 0, err
	}
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return l.appendGroup(records)
}

// AppendMark writes a group without records: a commit frame that carries the
// mark and the synced position. Not synced either.
func (l *Log) AppendMark() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	_, _, err := l.appendGroup(nil)
	return err
}

func (l *Log) checkRecords(records [][]byte) error {
	if len(records) == 0 {
		return fmt.Errorf("%w: group without records", ErrEmpty)
	}
	for i, r := range records {
		switch {
		case len(r) == 0:
			return fmt.Errorf("%w: record %d of %d", ErrEmpty, i, len(records))
		case len(r) > MaxRecordBytes:
			return fmt.Errorf("%w: record %d has %d bytes, at most %d fit", ErrTooLarge, i, len(r), MaxRecordBytes)
		}
	}
	room := l.o.SegmentBytes - headerBytes - commitFrameBytes
	if n := groupBytes(records); n > room {
		return fmt.Errorf("%w: group of %d bytes, at most %d fit in a file", ErrTooLarge, n, room)
	}
	return nil
}

// appendGroup writes a group at the end of the log, in a new file if the
// current one has no room for it and the commit frame that closes a file.
func (l *Log) appendGroup(records [][]byte) (first, end LSN, err error) {
	if err := l.usable(); err != nil {
		return 0, 0, err
	}
	need := groupBytes(records) + commitFrameBytes
	if l.cur.offset(l.End())+need > l.o.SegmentBytes {
		if err := l.rotate(); err != nil {
			return 0, 0, err
		}
	}
	return l.writeGroup(records)
}

// writeGroup writes a group that fits, with one write.
func (l *Log) writeGroup(records [][]byte) (first, end LSN, err error) {
	l.mu.Lock()
	first, synced, mark := l.end, l.synced, min(l.mark, l.synced)
	l.mu.Unlock()
	group, chain := appendGroup(l.buf[:0], first, l.cur.h.salt, l.chain, synced, mark, records)
	if cap(group) <= bufferKeepBytes {
		l.buf = group
	}
	if err := writeAll(l.cur.f, group, l.cur.offset(first)); err != nil {
		return 0, 0, l.poison("write", l.cur.path, err)
	}
	l.chain = chain
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil { // a sync failed meanwhile: promise nothing
		return 0, 0, l.failure
	}
	l.end = first + LSN(len(group))
	if len(records) > 0 {
		l.appends++
	}
	return first, l.end, nil
}

// rotate closes the current file for good (commit frame, fdatasync) and then
// makes the one that continues it. Called under appendMu.
func (l *Log) rotate() error {
	if _, _, err := l.writeGroup(nil); err != nil {
		return err
	}
	if _, err := l.Sync(); err != nil {
		return err
	}
	l.mu.Lock()
	l.pending = l.o.SegmentBytes // counted before it exists
	base := l.end
	l.mu.Unlock()
	if base > MaxLSN {
		return l.poison("rotate", l.cur.path, fmt.Errorf("%w: LSN %d is above %d", ErrTooLarge, uint64(base), uint64(MaxLSN)))
	}
	next, err := createFile(&l.o, header{base: base, prevBase: l.cur.h.base, prevSum: l.chain})
	if err != nil {
		return l.poison("rotate", l.cur.path, err)
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	old := l.cur
	l.mu.Lock()
	l.use(next)
	l.pending = 0
	l.mu.Unlock()
	if err := old.f.Close(); err != nil {
		return l.poison("rotate", old.path, err)
	}
	return nil
}
