package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestOverwriteRace: while values of one key replace each other, a reader sees
// one of them whole, or none; and the last one that was set stays.
func TestOverwriteRace(t *testing.T) {
	r := newRig(t, Options{})
	const writers, rounds = 3, 12
	value := func(w, i int) string {
		return fmt.Sprintf("%d/%d:", w, i) + strings.Repeat(string(rune('a'+w)), 20_000)
	}
	known := map[string]bool{}
	for w := range writers {
		for i := range rounds {
			known[value(w, i)] = true
		}
	}
	var writing sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		p := r.dial()
		writing.Go(func() {
			for i := range rounds {
				p.want(ok, "SET", "k", value(w, i))
			}
		})
	}
	var reading sync.WaitGroup
	for range 2 {
		p := r.dial()
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got, isValue := p.do("GET", "k").(string); isValue && !known[got] {
					t.Errorf("a value that nobody set: %.50q", got)
					return
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	p := r.dial()
	if got, isValue := p.do("GET", "k").(string); isValue && !known[got] {
		t.Errorf("in the end: %.50q", got)
	}
	p.want(ok, "SET", "k", "last")
	p.want("last", "GET", "k")
}

// TestConnectionsTogether: many connections, each with keys of its own, read
// what they wrote.
func TestConnectionsTogether(t *testing.T) {
	r := newRig(t, Options{})
	var all sync.WaitGroup
	for c := range 16 {
		p := r.dial()
		all.Go(func() {
			for i := range 10 {
				k := fmt.Sprintf("%d/%d", c, i)
				v := strings.Repeat(k, 1+i*3000)
				p.want(ok, "SET", k, v)
				p.want(int64(1), "EXISTS", k)
				p.want(v, "GET", k)
				if i%3 == 0 {
					p.want(int64(1), "DEL", k)
					p.want(nil, "GET", k)
				}
			}
		})
	}
	all.Wait()
	st := r.s.Stats()
	if k := st.Kinds["plain"]; k.Corrupt != 0 || k.Failed != 0 || k.PutFailed != 0 || k.Gets != k.Hits+k.Misses {
		t.Errorf("%+v", k)
	}
	if s := st.Commands["SET"]; s.Calls != 160 || s.Errors != 0 || s.Busy <= 0 || sum(s.Buckets) != 160 {
		t.Errorf("SET: %+v", s)
	}
}

func sum(all []int64) (n int64) {
	for _, v := range all {
		n += v
	}
	return n
}

// TestClientsVanish: clients that end in the middle of anything leave nothing
// behind.
func TestClientsVanish(t *testing.T) {
	r := newRig(t, Options{})
	r.dial().want(ok, "SET", "k", strings.Repeat("x", 1<<20))
	for i, in := range []string{
		"", "*", "*3\r\n$3\r\nSET\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nm\r\n$500000\r\nxxx", strings.Repeat(frame("GET", "k"), 20), frame("SET", "m", strings.Repeat("y", 300_000)),
	} {
		p := r.dial()
		p.send(in)
		if i%2 == 0 {
			time.Sleep(time.Millisecond) // now and then the server is in the middle of it
		}
		p.c.Close()
	}
	r.eventually(func() bool { st := r.s.Stats(); return st.Connections == 1 && st.ValueBytes == 0 })
	r.dial().want(strings.Repeat("x", 1<<20), "GET", "k")
}
