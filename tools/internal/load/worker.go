package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// worker is a connection that writes keys of its own, or reads those of all.
type worker struct {
	*run
	*client
	writer int // its number among those that write, or -1
	random *rand.Rand
	value  []byte
	handle int64 // of the blocks' namespace; 0: not open on this server
}

// act is one thing that a worker does. The error ends its connection.
type act struct {
	weight int
	do     func(*worker) error
}

var (
	writing = []act{{30, (*worker).set}, {25, (*worker).getOwn}, {10, (*worker).existsAndGet}, {5, (*worker).del}, {5, (*worker).setMany}, {5, (*worker).kvPut}, {1, (*worker).kvDrop}}
	reading = []act{{40, (*worker).get}, {10, (*worker).mget}, {5, (*worker).exists}, {5, (*worker).strlen}, {10, (*worker).getMany}, {10, (*worker).kvGet}, {5, (*worker).kvMatch}}
)

func (r *run) worker(ctx context.Context, id int, slow bool) {
	w := &worker{run: r, writer: r.c.writer(id), random: rand.New(rand.NewPCG(r.c.Seed, uint64(id)))}
	acts := reading
	if w.writer >= 0 {
		acts = writing
	}
	r.connected(ctx, id, slow, func(k *client) error {
		w.client, w.handle = k, 0
		for ctx.Err() == nil {
			if err := w.pick(acts).do(w); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *worker) pick(acts []act) act {
	sum := 0
	for _, a := range acts {
		sum += a.weight
	}
	n := w.random.IntN(sum)
	for _, a := range acts {
		if n -= a.weight; n < 0 {
			return a
		}
	}
	return acts[0]
}

// writers is how many workers and slow connections write: half of each.
func (c *Config) writers() int { return (c.Workers+1)/2 + (c.Slow+1)/2 }

// writer is the number of a worker among those that write, or -1.
func (c *Config) writer(id int) int {
	first := 0
	if id >= c.Workers {
		id, first = id-c.Workers, (c.Workers+1)/2
	}
	if id%2 == 1 {
		return -1
	}
	return first + id/2
}

// own is a key that this worker alone writes.
func (w *worker) own() int {
	n := w.c.writers()
	mine := (w.c.Keys - w.writer + n - 1) / n
	return w.random.IntN(mine)*n + w.writer
}

func (w *worker) any() int { return w.random.IntN(w.c.Keys) }

// name is a key as it is sent.
func (w *worker) name(key int) string { return fmt.Sprintf("%s:%08d", w.c.Prefix, key) }

func (w *worker) entry(key int) *entry { return &w.c.History.keys[key] }

// asked is a key that a value was asked for, and the oldest version that may
// come back.
type asked struct {
	key   int
	least uint64
}

func (w *worker) ask(key int) asked { return asked{key, w.entry(key).least.Load()} }

// look judges the answer to a GET; ok: it is a value.
func (w *worker) look(c command, q asked, a *answer) (ok bool) {
	switch {
	case a.missing():
		w.tally.missing(c)
		return false
	case a.kind != '$':
		w.tally.failed(c, string(a.text))
		return false
	}
	v, err := w.values.judge(a.text, q.key, q.least, w.entry(q.key).most.Load())
	w.tally.value(v, err, len(a.text))
	return true
}

// timed runs a command of one answer.
func (w *worker) timed(c command, args ...any) (answer, error) {
	began := time.Now()
	a, err := w.client.do(args...)
	if err == nil {
		w.tally.done(c, began)
	}
	return a, err
}
