package engine

import (
	"context"
	"errors"
	"fmt"
)

// Close ends the store: no new operation begins, running ones are waited for,
// what was put is synced and applied, the index is flushed and the lock given
// up. If the context ends before the last request of the kernel did, Close
// returns ErrClosing, the lock is kept, and Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.closeMu.lock(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrClosing, err)
	}
	defer s.closeMu.unlock()
	if s.closed {
		return nil
	}
	s.o.private.points("close:begin")
	err := s.queue.close(ctx) // its operations come to their ends
	s.closing.Store(true)
	s.scrub.halt()
	if err = errors.Join(err, s.ops.wait(ctx)); err != nil {
		return fmt.Errorf("%w: %w", ErrClosing, err)
	}
	err = s.settle(ctx)
	if err != nil && s.syncUnderWay() {
		// Who syncs must live on for the next Close to find it all durable.
		return fmt.Errorf("%w: %w", ErrClosing, err)
	}
	if stopErr := s.stopBackground(ctx); stopErr != nil {
		return fmt.Errorf("%w: %w", ErrClosing, errors.Join(err, stopErr))
	}
	if relErr := s.awaitRelease(ctx); relErr != nil {
		return fmt.Errorf("%w: %w", ErrClosing, errors.Join(err, relErr))
	}
	s.closed = true
	s.health.close()
	err = errors.Join(err, s.releaseErr)
	s.events.add(s.o.private.now(), EventClosed, "closed")
	s.events.close(ctx)
	return err
}

// settle makes everything durable and applied, as far as that goes.
func (s *Store) settle(ctx context.Context) error {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken != nil || s.o.ReadOnly {
		return nil // said in health; the next Open finds what there is
	}
	if s.life.Err() != nil {
		return nil // an earlier Close gave up waiting for the applier: what it did not apply is durable in the log
	}
	return s.flushUpTo(ctx)
}

// syncUnderWay: records wait for a sync, and no error has ended the waiting.
// An index that hangs is not waited for: the log has what it lacks.
func (s *Store) syncUnderWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken == nil && s.mark < s.lastRecordEndLocked()
}

// stopBackground ends sync, applier and eviction; one that hangs in the kernel
// is waited for until ctx ends, and again by the next Close.
func (s *Store) stopBackground(ctx context.Context) error {
	s.stopOnce.Do(func() {
		close(s.stop)
		s.endLife()
		s.stopped = make(chan struct{})
		go func() {
			defer close(s.stopped)
			s.workers.Wait()
			s.applyMu.Lock() // an applier that was called directly has left
			defer s.applyMu.Unlock()
		}()
	})
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRelease lets go of everything, on a goroutine that this Close, or the
// next, waits for: also the last sync of the log may hang.
func (s *Store) awaitRelease(ctx context.Context) error {
	s.releaseOnce.Do(func() {
		s.released = make(chan struct{})
		go func() {
			defer close(s.released)
			s.releaseErr = s.release()
		}()
	})
	select {
	case <-s.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release gives up what Open took, in reverse; also after an Open that
// failed half-way.
func (s *Store) release() error {
	s.endLife()
	s.deviceFiles.forgetAll()
	var errs []error
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
	defer cancel()
	if s.hint != nil {
		s.hint.close()
	}
	errs = append(errs, s.paths.close(ctx))
	_, _ = s.dropSpare() // what can not be taken away is an empty segment to the next Open
	errs = append(errs, s.closeWriters())
	if s.idx != nil {
		failed := s.idx.Err() != nil // said in health; what it leaves behind lets go of its lock
		if err := s.idx.Close(ctx); !failed {
			errs = append(errs, err)
		}
	}
	if s.nextLog != nil {
		errs = append(errs, s.nextLog.log.Close())
	}
	if s.log != nil {
		s.mu.Lock()
		s.log.SetMark(s.mark)
		s.mu.Unlock()
		if err := s.log.Close(); s.broken == nil {
			errs = append(errs, err)
		}
	}
	if s.vol != nil {
		errs = append(errs, s.vol.Close())
	}
	s.host.Close()
	errs = append(errs, s.pool.Close(), s.movePool.Close())
	if s.readerPool != nil {
		errs = append(errs, s.readerPool.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(append(errs, s.closeFS())...)
}

// closeWriters leaves active segments unsealed: Open seals them.
func (s *Store) closeWriters() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, seg := range s.segs {
		if seg.writer != nil {
			errs = append(errs, seg.writer.Close())
		}
	}
	return errors.Join(errs...)
}
