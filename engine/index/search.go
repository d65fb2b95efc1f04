package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// A call for many keys is cut into parts, which a few goroutines take from. A
// short one, or one that misses early, as most do that will not hit at all,
// stays on its worker.
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
	// order is that of the records, nil that of the call: neighbours lie in
	// one table, which then is looked for once.
	order []int
	next  atomic.Int64 // part to take
	// miss is the first place known to be a miss, where that ends the call:
	// places behind need not be looked at.
	miss atomic.Int64
}

func (d *DB) search(keys []Key, stopAtMiss bool) ([]Found, error) {
	l := &search{d: d, keys: keys, out: make([]Found, len(keys)), stopAtMiss: stopAtMiss}
	l.miss.Store(int64(len(keys)))
	v := &view{r: d.db}
	var err error
	if l.parts() < partsMin {
		err = l.take(v)
	} else if err = l.part(v, 0); err == nil && l.miss.Load() == int64(len(keys)) {
		err = l.share(v)
	}
	if err = errors.Join(err, v.close()); err != nil {
		return nil, err
	}
	// Behind a miss that ends the call all is absent; some of it may have been
	// found.
	if miss := l.miss.Load(); miss < int64(len(keys)) {
		clear(l.out[miss:])
	}
	return l.out, nil
}

func (l *search) parts() int64 { return int64(len(l.keys)+partKeys-1) / partKeys }

// share takes the parts but the first with some goroutines more. It returns
// when all have ended: none may be in Pebble when the call is over.
func (l *search) share(v *view) error {
	l.sort()
	l.next.Store(1)
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

// sort puts all behind the first part into the order of the records, as far
// as the beginnings of their keys tell.
func (l *search) sort() {
	type place struct {
		at    int
		space uint32
		begin uint64
	}
	places := make([]place, len(l.keys))
	var buf [128]byte
	for i, k := range l.keys {
		key := appendKey(buf[:0], k)
		places[i] = place{i, k.Namespace, 0}
		if len(key) >= keyPrefixBytes+8 {
			places[i].begin = binary.BigEndian.Uint64(key[keyPrefixBytes:])
		}
	}
	slices.SortFunc(places[partKeys:], func(a, b place) int {
		return cmp.Or(cmp.Compare(a.space, b.space), cmp.Compare(a.begin, b.begin))
	})
	l.order = make([]int, len(places))
	for i, p := range places {
		l.order[i] = p.at
	}
}

// take looks up one part after another.
func (l *search) take(v *view) error {
	for {
		i := l.next.Add(1) - 1
		if i >= l.parts() {
			return nil
		}
		if err := l.part(v, i); err != nil {
			l.next.Store(l.parts()) // nobody needs to go on
			return err
		}
	}
}

// part looks up the i-th part.
func (l *search) part(v *view, i int64) (err error) {
	var buf [128]byte
	from, to := int(i)*partKeys, min(int(i+1)*partKeys, len(l.keys))
	for n := from; n < to; n++ {
		at := n
		if l.order != nil {
			at = l.order[n]
		}
		if int64(at) > l.miss.Load() {
			continue
		}
		key := appendKey(buf[:0], l.keys[at])
		if l.out[at].Entry, l.out[at].OK, err = v.entry(key); err != nil {
			return err
		}
		if l.stopAtMiss && !l.out[at].OK {
			l.missed(int64(at))
		}
	}
	return nil
}

// missed lowers the first miss.
func (l *search) missed(at int64) {
	for {
		first := l.miss.Load()
		if first <= at || l.miss.CompareAndSwap(first, at) {
			return
		}
	}
}
