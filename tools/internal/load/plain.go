package load

import (
	"fmt"
	"time"
)

// manyKeys is the most of an MGET or a pipeline.
const manyKeys = 8

func (w *worker) set() error {
	key := w.own()
	version := w.entry(key).next()
	w.value = w.values.fill(w.value, key, version)
	a, err := w.timed(cmdSet, "SET", w.name(key), w.value)
	if err != nil {
		return err
	}
	w.wrote(key, version, &a)
	return nil
}

// wrote notes the answer to a SET.
func (w *worker) wrote(key int, version uint64, a *answer) {
	if !a.is("OK") {
		w.tally.failed(cmdSet, string(a.text))
		return
	}
	w.tally.bytesWritten.Add(int64(w.values.sizeOf(key, version)))
	w.entry(key).written(version)
}

// setMany is a pipeline of SETs of different keys.
func (w *worker) setMany() error {
	type sent struct {
		key     int
		version uint64
	}
	var all []sent
	began := time.Now()
	w.client.begin()
	seen := map[int]bool{}
	for range 1 + w.random.IntN(manyKeys) {
		key := w.own()
		if seen[key] {
			continue
		}
		seen[key] = true
		s := sent{key, w.entry(key).next()}
		w.value = w.values.fill(w.value, s.key, s.version)
		w.send("SET", w.name(key), w.value)
		all = append(all, s)
	}
	for _, s := range all {
		a, err := w.read()
		if err != nil {
			return err
		}
		w.wrote(s.key, s.version, &a)
	}
	w.tally.done(cmdPipe, began)
	return nil
}

func (w *worker) getKey(key int) (found bool, err error) {
	q := w.ask(key)
	began := time.Now()
	a, err := w.do("GET", w.name(key))
	if err != nil {
		return false, err
	}
	found = w.look(cmdGet, q, &a)
	w.tally.done(cmdGet, began)
	return found, nil
}

func (w *worker) get() error {
	_, err := w.getKey(w.any())
	return err
}

// getOwn gets a key that nobody else writes: what was acknowledged is there.
func (w *worker) getOwn() error {
	key := w.own()
	found, err := w.getKey(key)
	if err == nil {
		w.found(key, found)
	}
	return err
}

// found notes whether an own key was found. One that is gone stays so.
func (w *worker) found(key int, found bool) {
	e := w.entry(key)
	if e.stored && !found {
		w.tally.lost.Add(1)
		w.tally.example(fmt.Sprintf("key %d: version %d was acknowledged and is not found", key, e.least.Load()))
		e.stored = false
	}
}

// existsAndGet is what LMCache does: the GET may not miss.
func (w *worker) existsAndGet() error {
	key := w.own()
	a, err := w.timed(cmdExists, "EXISTS", w.name(key))
	if err != nil {
		return err
	}
	if a.kind != ':' || a.n != 1 {
		if a.kind != ':' {
			w.tally.failed(cmdExists, string(a.text))
		}
		w.found(key, false)
		return nil
	}
	found, err := w.getKey(key)
	if err == nil && !found {
		w.tally.afterExists.Add(1)
		w.tally.example(fmt.Sprintf("key %d: EXISTS said 1 and GET found nothing", key))
	}
	return err
}

func (w *worker) exists() error {
	args := []any{"EXISTS"}
	for range 1 + w.random.IntN(manyKeys) {
		args = append(args, w.name(w.any()))
	}
	a, err := w.timed(cmdExists, args...)
	if err == nil && (a.kind != ':' || a.n > int64(len(args)-1)) {
		w.tally.failed(cmdExists, fmt.Sprintf("%c%s%d for %d keys", a.kind, a.text, a.n, len(args)-1))
	}
	return err
}

func (w *worker) del() error {
	key := w.own()
	e := w.entry(key)
	e.removing()
	a, err := w.timed(cmdDel, "DEL", w.name(key))
	switch {
	case err != nil:
		return err
	case a.kind != ':':
		w.tally.failed(cmdDel, string(a.text))
	case a.n == 1:
		e.removed()
	}
	return nil
}

// strlen asks for the length of a value, which is that of a version.
func (w *worker) strlen() error {
	key := w.any()
	a, err := w.timed(cmdStrlen, "STRLEN", w.name(key))
	if err != nil {
		return err
	}
	for _, n := range w.values.sizes {
		if a.kind == ':' && a.n == int64(n) {
			return nil
		}
	}
	if a.kind != ':' || a.n != 0 {
		w.tally.failed(cmdStrlen, fmt.Sprintf("%c%s%d: no value has that length", a.kind, a.text, a.n))
		return nil
	}
	w.tally.missing(cmdStrlen)
	return nil
}

func (w *worker) mget() error {
	var all []asked
	args := []any{"MGET"}
	for range 1 + w.random.IntN(manyKeys) {
		q := w.ask(w.any())
		all = append(all, q)
		args = append(args, w.name(q.key))
	}
	began := time.Now()
	a, err := w.do(args...)
	if err != nil {
		return err
	}
	if a.kind != '*' || len(a.list) != len(all) {
		w.tally.failed(cmdMGet, fmt.Sprintf("%c%s with %d values for %d keys", a.kind, a.text, len(a.list), len(all)))
		return nil
	}
	for i := range all {
		w.look(cmdMGet, all[i], &a.list[i])
	}
	w.tally.done(cmdMGet, began)
	return nil
}

// getMany is a pipeline of GETs.
func (w *worker) getMany() error {
	var all []asked
	began := time.Now()
	w.client.begin()
	for range 1 + w.random.IntN(manyKeys) {
		q := w.ask(w.any())
		all = append(all, q)
		w.send("GET", w.name(q.key))
	}
	for _, q := range all {
		a, err := w.read()
		if err != nil {
			return err
		}
		w.look(cmdGet, q, &a)
	}
	w.tally.done(cmdPipe, began)
	return nil
}
