package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sealstone/sealstone/tools/internal/pagecache"
	"github.com/sealstone/sealstone/tools/internal/stamp"
)

// sample is one phase of one round.
type sample struct {
	Server      string  `json:"server"`
	Phase       string  `json:"phase"` // set or get
	ValueBytes  int     `json:"value_bytes"`
	Connections int     `json:"connections"`
	Round       int     `json:"round"`
	MBPerSecond float64 `json:"mb_per_second"`
	PerSecond   float64 `json:"per_second"`
	P50US       float64 `json:"p50_us"`
	P99US       float64 `json:"p99_us"`
	CPUPerGiB   float64 `json:"cpu_seconds_per_gib"`
	Missing     int     `json:"missing"`
}

// round runs one server over all phases: with each number of connections it
// sets a part of the keys, then gets all of them.
func (c *config) round(ctx context.Context, s *contender, valueBytes, number int) ([]sample, error) {
	dir, err := os.MkdirTemp(c.dir, "servers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil { // memcached gives up being root
		return nil, err
	}
	p, err := start(ctx, c, s, dir)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	keys := int(c.bytes) / valueBytes
	var out []sample
	for i, n := range c.connections {
		share := keys / len(c.connections)
		one, err := c.phase(p, s, "set", n, valueBytes, sequence(i*share, (i+1)*share))
		if err != nil {
			return nil, fmt.Errorf("%s: set: %w", s.name, err)
		}
		out = append(out, one)
	}
	keys -= keys % len(c.connections)
	for _, n := range c.connections {
		order := sequence(0, keys)
		rand.New(rand.NewPCG(uint64(number), uint64(n))).Shuffle(keys, func(i, k int) { order[i], order[k] = order[k], order[i] })
		if s.cold {
			time.Sleep(settle)
			if err := pagecache.Drop(s.files(dir)); err != nil {
				return nil, err
			}
		}
		one, err := c.phase(p, s, "get", n, valueBytes, order)
		if err != nil {
			return nil, fmt.Errorf("%s: get: %w", s.name, err)
		}
		out = append(out, one)
	}
	for i := range out {
		out[i].Round = number
	}
	return out, nil
}

// settle is how long a server with a disk has to write what it was given.
const settle = 1500 * time.Millisecond

func sequence(from, to int) []int {
	all := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

// phase has n connections set or get keys, each key once.
func (c *config) phase(p *process, s *contender, what string, n, valueBytes int, keys []int) (sample, error) {
	before, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	workers := make([]worker, n)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range workers {
		w := &workers[i]
		w.keys = keys[i*len(keys)/n : (i+1)*len(keys)/n]
		wg.Go(func() { w.err = w.run(p.address, s.newWire(), what, valueBytes) })
	}
	wg.Wait()
	took := time.Since(began)
	after, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	out := sample{Server: s.name, Phase: what, ValueBytes: valueBytes, Connections: n}
	var times []time.Duration
	for _, w := range workers {
		if w.err != nil {
			return sample{}, w.err
		}
		out.Missing += w.missing
		times = append(times, w.times...)
	}
	slices.Sort(times)
	bytes := float64(len(times)-out.Missing) * float64(valueBytes)
	out.PerSecond = float64(len(times)) / took.Seconds()
	out.MBPerSecond = bytes / 1e6 / took.Seconds()
	out.P50US, out.P99US = at(times, 50), at(times, 99)
	out.CPUPerGiB = (after - before).Seconds() / (bytes / (1 << 30))
	return out, nil
}

// at is a percentile in microseconds.
func at(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)*percent/100, len(sorted)-1)]) / 1e3
}

type worker struct {
	keys    []int
	times   []time.Duration
	missing int
	err     error
}

func (w *worker) run(address string, wire wire, what string, valueBytes int) error {
	k, err := dial(address, wire)
	if err != nil {
		return err
	}
	defer k.Close()
	p := make([]byte, valueBytes)
	stamp.Base(p)
	for _, key := range w.keys {
		name, ref := fmt.Sprintf("key:%09d", key), stamp.Ref(0, key)
		if what == "set" {
			stamp.Write(p, ref)
		}
		began := time.Now()
		n, found := len(p), true
		if what == "set" {
			err = k.set(k.w, k.r, name, p)
		} else {
			n, found, err = k.get(k.w, k.r, name, p)
		}
		w.times = append(w.times, time.Since(began))
		switch {
		case err != nil:
			return err
		case !found:
			w.missing++
		case n != len(p) || !stamp.All(p, 0, ref):
			return fmt.Errorf("WRONG BYTES for %s", name)
		}
	}
	return nil
}
