package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/wal"
)

// nextLog is a log in which what is pending was logged anew, durably, and which
// is to take the place of one that failed.
type nextLog struct {
	log     *wal.Log
	base    wal.LSN   // where it begins
	end     wal.LSN   // behind the records
	pending []*record // as the store has them
	moved   []record  // with their places in this log
}

// changeLog begins a new log in the place of the old one, flushes the index
// past that, and lets the store write again. Who was writing to the old log has
// left by then, and finds its record not to count.
//
// Where the index can not be flushed it may still come to refer to the new log,
// so that is kept for the next try: tries that fail leave no files behind them.
func (s *Store) changeLog(ctx context.Context) error {
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	s.mu.Lock()
	old, pending := s.log, s.pending
	s.mu.Unlock()
	if n := s.nextLog; n != nil && !slices.Equal(n.pending, pending) {
		s.nextLog = nil // it holds what was withdrawn since
		_ = n.log.Close()
	}
	if s.nextLog == nil {
		n, err := s.logAnew(old, pending)
		if err != nil {
			return err
		}
		s.nextLog = n
	}
	n := s.nextLog
	err := s.updateIndex(func(b *index.Batch) error { return b.SetApplied(uint64(n.base)) })
	if err == nil {
		err = s.idx.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("engine: flush the index past the old log: %w", err)
	}
	s.nextLog = nil // whatever comes of it: it is the log from here on, or has failed
	if err := n.log.RemoveOthers(); err != nil {
		return errors.Join(fmt.Errorf("engine: remove the old log: %w", err), n.log.Close())
	}
	s.takeLog(n)
	_ = old.Close() // poisoned, most likely: its files are gone
	return s.writeAgain()
}

// logAnew makes a new log behind the old one and logs in it what is pending.
func (s *Store) logAnew(old *wal.Log, pending []*record) (*nextLog, error) {
	names, err := s.fs.List(logDir)
	if err != nil {
		return nil, fmt.Errorf("engine: list the log: %w", err)
	}
	// Their room bounds the files. More than were needed are there only where
	// one could not be removed, or failed when the index had passed it.
	if len(names) >= logFilesMax {
		return nil, fmt.Errorf("engine: new log: %d log files are there, no more fit their room; close and open the store", len(names))
	}
	s.mu.Lock()
	for _, seg := range s.active {
		if seg != nil {
			s.retireLocked(seg)
		}
	}
	s.mu.Unlock()
	log, err := wal.Create(s.logOptions(), old.End())
	if err != nil {
		return nil, fmt.Errorf("engine: new log: %w", err)
	}
	n := &nextLog{log: log, base: log.End(), pending: slices.Clone(pending)}
	if err := n.write(); err != nil {
		return nil, errors.Join(fmt.Errorf("engine: log anew: %w", err), log.Discard())
	}
	return n, nil
}

func (n *nextLog) write() error {
	n.moved = make([]record, len(n.pending))
	for i, r := range n.pending {
		first, end, err := n.log.Append(r.encode())
		if err != nil {
			return err
		}
		n.moved[i] = *r
		n.moved[i].lsn, n.moved[i].end = first, end
	}
	end, err := n.log.Sync()
	n.end = end
	return err
}

// takeLog makes a new log that of the store.
func (s *Store) takeLog(n *nextLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = n.log
	for i, r := range n.pending {
		*r = n.moved[i]
		if seg := s.segs[r.Segment]; seg != nil && r.Kind == recordEvict {
			seg.evictEnd = r.end
		}
	}
	s.overlay.renumber(n.pending)
	s.mark, s.applied, s.trimmed = n.end, n.base, n.base
	if s.evictOpen != 0 {
		s.evictOpen = n.base
	}
	n.log.SetMark(s.mark)
}
