package cputime

import (
	"crypto/sha256"
	"runtime"
	"testing"
	"time"
)

// burn uses the processor until its thread has spent so much time on it, or
// for a good while where that is not measured.
func burn(elapsed func() time.Duration, least time.Duration) {
	p := make([]byte, 1<<16)
	for i := 0; i < 20000; i++ {
		sha256.Sum256(p)
		if now := elapsed(); now >= least {
			return
		}
	}
}

func TestProcessAndThread(t *testing.T) {
	if runtime.GOOS != "linux" {
		if Process() != 0 || Thread()() != 0 {
			t.Error("a figure where nothing is measured")
		}
		return
	}
	before := Process()
	done := Thread()
	from := Process()
	burn(func() time.Duration { return Process() - from }, 20*time.Millisecond)
	thread := done()
	process := Process() - before
	if thread <= 0 || process < 20*time.Millisecond {
		t.Errorf("thread %v, process %v", thread, process)
	}
	// What others do while this one sleeps is not its own.
	done = Thread()
	other := make(chan struct{})
	go func() {
		defer close(other)
		from := Process()
		burn(func() time.Duration { return Process() - from }, 50*time.Millisecond)
	}()
	<-other
	if mine := done(); mine >= Process()-before {
		t.Errorf("%v of the thread, %v of the process", mine, Process()-before)
	}
}
