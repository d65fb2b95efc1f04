package disk

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue gives what a plain list would: reads in order, writes in order,
// and no write waits for more than a few reads.
func TestLanesModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		read, write := &batch{}, &batch{write: true}
		var l lanes
		var reads, writes []*request
		overtaken := 0
		for range rapid.IntRange(0, 200).Draw(rt, "steps") {
			switch rapid.IntRange(0, 6).Draw(rt, "step") {
			case 0, 1:
				r := &request{b: read}
				l.push(r)
				reads = append(reads, r)
			case 2, 3:
				r := &request{b: write}
				l.push(r)
				writes = append(writes, r)
			case 4:
				gone := func(r *request) bool {
					return rapid.IntRange(0, 3).Draw(rt, "abandon") == 0 && r.state.CompareAndSwap(stateQueued, stateAbandoned)
				}
				reads, writes = slices.DeleteFunc(reads, gone), slices.DeleteFunc(writes, gone)
				l.dropAbandoned()
			default:
				if l.len() == 0 {
					continue
				}
				want := &reads
				if len(reads) == 0 || len(writes) > 0 && overtaken >= readsPerWrite {
					want = &writes
				}
				if overtaken++; want == &writes || len(writes) == 0 {
					overtaken = 0
				}
				peeked := l.peek()
				if r := l.pop(); r != (*want)[0] || r != peeked {
					rt.Fatalf("popped the wrong request")
				}
				*want = (*want)[1:]
			}
			if l.len() != len(reads)+len(writes) {
				rt.Fatalf("%d wait, want %d and %d", l.len(), len(reads), len(writes))
			}
		}
	})
}

// A request that was begun elsewhere stays in the queue though its caller
// left: its file and memory are still to be given back.
func TestLanesKeepStarted(t *testing.T) {
	var l lanes
	begun, left := &request{b: &batch{}, started: true}, &request{b: &batch{}}
	begun.state.Store(stateAbandoned)
	left.state.Store(stateAbandoned)
	l.push(left)
	l.push(begun)
	l.dropAbandoned()
	if l.len() != 1 || l.pop() != begun {
		t.Error("the wrong request was dropped")
	}
}

// In steady state the queue allocates nothing.
func TestFifoReusesMemory(t *testing.T) {
	var q fifo
	r := &request{}
	for range 10 {
		q.push(r)
	}
	if n := testing.AllocsPerRun(1000, func() { q.push(r); q.pop() }); n > 0 {
		t.Errorf("%v allocations for a push and a pop", n)
	}
}
