package index

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// A call for many keys is cut into parts, which a few goroutines take from in
// order. A short one, or one that misses early, as most do that will not hit
// at all, stays on its worker.
const (
	partKeys     = 64
	partsMin     = 4 // with fewer, another goroutine is not worth it
	lookupersMax = 4 // goroutines of a call, its worker among them
)

// search is one call of Get, on a worker of the pool.
type search struct {
	d          *DB
	keys       []Key
	out        []Found
	stopAtMiss bool
	next       atomic.Int64 // part to take
	// last is the first part with a miss, where that ends the call: later
	// parts need not be looked at.
	last atomic.Int64
}

func (d *DB) search(keys []Key, stopAtMiss bool) ([]Found, error) {
	l := &search{d: d, keys: keys, out: make([]Found, len(keys)), stopAtMiss: stopAtMiss}
	parts := int64(len(keys)+partKeys-1) / partKeys
	l.last.Store(parts - 1)
	v := &view{r: d.db}
	var err error
	if parts < partsMin {
		err = l.take(v)
	} else {
		l.next.Store(1)
		if err = l.part(v, 0); err == nil && l.last.Load() > 0 {
			err = l.share(v)
		}
	}
	if err = errors.Join(err, v.close()); err != nil {
		return nil, err
	}
	return l.result(), nil
}

// share takes the remaining parts with some goroutines more. It returns when
// all have ended: none may be in Pebble when the call is over.
func (l *search) share(v *view) error {
	helpers := min(runtime.GOMAXPROCS(0), lookupersMax) - 1
	errs := make([]error, helpers+1)
	var wg sync.WaitGroup
	for i := range helpers {
		wg.Go(func() {
			_, errs[i] = guarded(l.d, func() (struct{}, error) {
				own := &view{r: l.d.db}
				return struct{}{}, errors.Join(l.take(own), own.close())
			})
		})
	}
	errs[helpers] = l.take(v)
	wg.Wait()
	return errors.Join(errs...)
}

// take looks up one part after another.
func (l *search) take(v *view) error {
	for {
		i := l.next.Add(1) - 1
		if i > l.last.Load() {
			return nil
		}
		if err := l.part(v, i); err != nil {
			l.last.Store(-1) // nobody needs to go on
			return err
		}
	}
}

// part looks up the i-th part.
func (l *search) part(v *view, i int64) (err error) {
	var buf [128]byte
	from, to := int(i)*partKeys, min(int(i+1)*partKeys, len(l.keys))
	for j := from; j < to; j++ {
		key := appendKey(buf[:0], l.keys[j])
		if l.out[j].Entry, l.out[j].OK, err = v.entry(key); err != nil {
			return err
		}
		if l.stopAtMiss && !l.out[j].OK {
			l.endAt(i)
			return nil
		}
	}
	return nil
}

func (l *search) endAt(part int64) {
	for {
		last := l.last.Load()
		if last <= part || l.last.CompareAndSwap(last, part) {
			return
		}
	}
}

// result reports what stands behind the first miss as absent, if that ends
// the call: some of it may have been found.
func (l *search) result() []Found {
	if !l.stopAtMiss {
		return l.out
	}
	for i := range l.out {
		if !l.out[i].OK {
			clear(l.out[i+1:])
			break
		}
	}
	return l.out
}
