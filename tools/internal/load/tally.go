package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// command names what latencies are kept for.
type command uint8

const (
	cmdSet command = iota
	cmdGet
	cmdMGet
	cmdExists
	cmdDel
	cmdStrlen
	cmdPipe
	cmdPing
	cmdKVPut
	cmdKVGet
	cmdKVMatch
	cmdKVDrop

	commands
)

var commandNames = [commands]string{"SET", "GET", "MGET", "EXISTS", "DEL", "STRLEN", "pipeline", "PING", "KV.PUT", "KV.GET", "KV.MATCH", "KV.DROP"}

const (
	// latencyMaxUS is the longest latency told apart, ten minutes; digits is
	// how precisely.
	latencyMaxUS = 600e6
	digits       = 3
	examplesMax  = 20
)

// tally counts for all connections of a run.
type tally struct {
	commands [commands]commandTally
	verdicts [verdicts]atomic.Int64

	bytesRead, bytesWritten        atomic.Int64
	lost, afterExists              atomic.Int64
	broken, reconnects             atomic.Int64
	rudeTold, rudeGone, rudeUntold atomic.Int64

	mu       sync.Mutex
	examples []string
}

type commandTally struct {
	missing, errors atomic.Int64
	mu              sync.Mutex
	took            *hdrhistogram.Histogram // guarded by mu
}

func newTally() *tally {
	t := &tally{}
	for i := range t.commands {
		t.commands[i].took = hdrhistogram.New(1, latencyMaxUS, digits)
	}
	return t
}

// done counts a command that was answered.
func (t *tally) done(c command, began time.Time) {
	us := max(time.Since(began).Microseconds(), 1)
	k := &t.commands[c]
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.took.RecordValue(min(us, latencyMaxUS))
}

func (t *tally) missing(c command) { t.commands[c].missing.Add(1) }

// failed counts an answer that says what is wrong.
func (t *tally) failed(c command, text string) {
	t.commands[c].errors.Add(1)
	t.example(commandNames[c] + ": " + text)
}

func (t *tally) example(s string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.examples) < examplesMax {
		t.examples = append(t.examples, s)
	}
}

// value counts a value that was judged.
func (t *tally) value(v verdict, err error, bytes int) {
	t.verdicts[v].Add(1)
	t.bytesRead.Add(int64(bytes))
	if err != nil {
		t.example("a value " + verdictNames[v] + ": " + err.Error())
	}
}

func (t *tally) report(c *Config, took time.Duration) *Report {
	r := &Report{
		Seconds: took.Seconds(), Connections: c.Connections, Workers: c.Workers, Slow: c.Slow, Rude: c.Rude, Seed: c.Seed,
		Commands:  map[string]CommandReport{},
		BytesRead: t.bytesRead.Load(), BytesWritten: t.bytesWritten.Load(),
		Values: Values{
			Right: t.verdicts[right].Load(), Short: t.verdicts[short].Load(), Foreign: t.verdicts[foreign].Load(),
			Stale: t.verdicts[stale].Load(), Wrong: t.verdicts[wrong].Load(),
		},
		Lost: t.lost.Load(), AfterExists: t.afterExists.Load(), Broken: t.broken.Load(), Reconnects: t.reconnects.Load(),
		RudeTold: t.rudeTold.Load(), RudeGone: t.rudeGone.Load(), RudeUntold: t.rudeUntold.Load(),
	}
	for i := range t.commands {
		if k := &t.commands[i]; k.took.TotalCount() > 0 {
			r.Commands[commandNames[i]] = k.report(took)
		}
	}
	r.Examples = t.examples
	return r
}

func (k *commandTally) report(took time.Duration) CommandReport {
	h := k.took
	return CommandReport{
		Calls: h.TotalCount(), Missing: k.missing.Load(), Errors: k.errors.Load(),
		PerSecond: float64(h.TotalCount()) / took.Seconds(),
		P50US:     h.ValueAtQuantile(50), P99US: h.ValueAtQuantile(99), P999US: h.ValueAtQuantile(99.9), MaxUS: h.Max(),
	}
}
