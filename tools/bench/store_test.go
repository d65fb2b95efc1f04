package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// inProcess runs a phase without a process of its own.
func inProcess(t *testing.T, o order) outcome {
	t.Helper()
	in, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := contenderOf(o.Store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.open(o.Dir, o.Work)
	if err != nil {
		t.Fatal(err)
	}
	p := &phase{order: o, store: s}
	res, err := p.run(time.Now())
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return res
}

// TestContenders: what was put is got back, and other bytes are noticed.
func TestContenders(t *testing.T) {
	w, err := newWork(8192, 128<<10, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			inProcess(t, order{c.name, phaseWrite, dir, w})
			if got := inProcess(t, order{c.name, phaseReopen, dir, w}); got.Open <= 0 {
				t.Errorf("%+v", got)
			}
			if got := inProcess(t, order{c.name, phaseRead, dir, w}); got.Wrong != 0 || got.Wall <= 0 {
				t.Errorf("%+v", got)
			}
			s, err := c.open(dir, w)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			buffer, free, err := s.NewBuffer(int(w.batchBytes()))
			if err != nil {
				t.Fatal(err)
			}
			defer free()
			keys, dst := w.cut([]int{w.Blocks + 1}, buffer) // never put
			if err := s.Get(keys, dst); err == nil {
				t.Error("a block that was never put was got")
			}
			// The bytes of block 1 under the key of block 0.
			p := &phase{order: order{Work: w}, store: swapped{s, w}}
			if err := p.get([]int{0}, buffer); err != nil || p.wrong.Load() != 1 {
				t.Errorf("another block's bytes: %d wrong, %v", p.wrong.Load(), err)
			}
		})
	}
}

// swapped gets block 1 whatever is asked for.
type swapped struct {
	store
	work work
}

func (s swapped) Get(keys, dst [][]byte) error {
	return s.store.Get([][]byte{s.work.key(1)}, dst[:1])
}

func TestRunChildRefuses(t *testing.T) {
	never := func() error { t.Error("killed"); return nil }
	for in, want := range map[string]string{"": "the order", `{"Store":"x"}`: "no store"} {
		if err := runChild(strings.NewReader(in), &bytes.Buffer{}, never); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestRunChildKillsAfterWrite(t *testing.T) {
	w, err := newWork(4096, 64<<10, 4)
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(order{"file", phaseWrite, t.TempDir(), w})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	killed := errors.New("killed")
	if err := runChild(bytes.NewReader(in), &out, func() error { return killed }); !errors.Is(err, killed) || !json.Valid(out.Bytes()) {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestParallel(t *testing.T) {
	var calls, sum atomic.Int64
	err := parallel(4, 100, func(i int) error {
		calls.Add(1)
		sum.Add(int64(i))
		return nil
	})
	if err != nil || calls.Load() != 100 || sum.Load() != 4950 {
		t.Errorf("%d calls, sum %d, %v", calls.Load(), sum.Load(), err)
	}
	bad := errors.New("bad")
	if err := parallel(4, 100, func(i int) error {
		if i == 7 {
			return bad
		}
		return nil
	}); !errors.Is(err, bad) {
		t.Errorf("%v", err)
	}
	if err := parallel(4, 0, func(int) error { return bad }); err != nil {
		t.Errorf("of nothing: %v", err)
	}
}

func TestFigure(t *testing.T) {
	at := func(v ...float64) figure {
		rounds := make([]round, len(v))
		for i, d := range v {
			rounds[i].diskBytes = int64(d)
		}
		return of(rounds, func(r round) float64 { return float64(r.diskBytes) })
	}
	for _, c := range []struct{ got, want figure }{
		{at(), figure{}}, {at(5), figure{5, 5, 5}}, {at(9, 1, 2), figure{2, 1, 9}}, {at(4, 1, 3, 2), figure{2.5, 1, 4}},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}
