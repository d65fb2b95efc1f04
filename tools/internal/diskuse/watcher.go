package diskuse

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"
)

// Watcher samples a directory until it is stopped and keeps the maximum.
type Watcher struct {
	dir    string
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	pids    []int
	last    usage
	max     int64
	samples int64
	err     error
}

// Watch starts to sample dir every interval, files held open by the processes
// included. The directory need not exist yet. Stop must be called.
func Watch(dir string, every time.Duration, pids ...int) *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{dir: dir, cancel: cancel, done: make(chan struct{}), pids: pids}
	go w.loop(ctx, every)
	return w
}

// SetProcesses changes whose open files count.
func (w *Watcher) SetProcesses(pids ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids = pids
}

// Max is the most bytes that were certainly held at one moment, over how many
// samples; err is the first failure to look, which makes the figure a guess.
func (w *Watcher) Max() (bytes, samples int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.max, w.samples, w.err
}

// Stop takes two last samples, so that whatever stands still by now counts,
// and ends the sampling.
func (w *Watcher) Stop() {
	w.cancel()
	<-w.done
	w.sample()
	w.sample()
}

func (w *Watcher) loop(ctx context.Context, every time.Duration) {
	defer close(w.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		w.sample()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watcher) sample() {
	w.mu.Lock()
	pids := w.pids
	w.mu.Unlock()
	u, err := scan(w.dir, pids)
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return // not made yet
	}
	if err != nil && w.err == nil {
		w.err = err
	}
	w.max = max(w.max, common(w.last, u))
	w.last = u
	w.samples++
}
