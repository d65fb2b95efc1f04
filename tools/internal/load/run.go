package load

import (
	"context"
	"sync"
	"time"
)

// Run puts load on a server until the time is over or the context ends. The
// error says that it could not begin; what went wrong later is in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{c: c, values: values{c.Prefix, c.ValueBytes}, tally: newTally()}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	// No deadline: dialing would report it as a timeout of its own.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(c.Duration, cancel).Stop()
	var wg sync.WaitGroup
	start := func(n int, work func(ctx context.Context, i int)) {
		for i := range n {
			wg.Go(func() { work(ctx, i) })
		}
	}
	start(c.Workers, func(ctx context.Context, i int) { r.worker(ctx, i, false) })
	start(c.Slow, func(ctx context.Context, i int) { r.worker(ctx, c.Workers+i, true) })
	start(c.Connections-c.Workers-c.Slow, func(ctx context.Context, i int) { r.idle(ctx, c.Workers+c.Slow+i) })
	start(c.Rude, r.rude)
	if c.Progress != nil {
		wg.Go(func() { r.progress(ctx, began) })
	}
	wg.Wait()
	return r.tally.report(&r.c, time.Since(began)), nil
}

type run struct {
	c      Config
	values values
	tally  *tally
	layout string // of the blocks, as JSON
}

// prepare sees that there is a server which knows who we are.
func (r *run) prepare(ctx context.Context) error {
	r.layout = blockLayout(r.c.Prefix)
	k, err := dial(ctx, &r.c, 0, false)
	if err != nil {
		return err
	}
	defer k.close()
	_, err = k.do("PING")
	return err
}

const progressPause = 200 * time.Millisecond

func (r *run) progress(ctx context.Context, began time.Time) {
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.c.Progress(now.Sub(began), r.c.Duration)
		}
	}
}

const (
	redialPause    = 5 * time.Millisecond
	redialPauseMax = 200 * time.Millisecond
)

// connected runs work on a connection, and again on a new one where it broke:
// work returns nil when the run is over.
func (r *run) connected(ctx context.Context, i int, slow bool, work func(k *client) error) {
	pause := redialPause
	for first := true; ctx.Err() == nil; first = false {
		k, err := dial(ctx, &r.c, i, slow)
		if err == nil {
			pause = redialPause
			if !first {
				r.tally.reconnects.Add(1)
			}
			err = work(k)
			k.close()
			if err == nil {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		r.tally.broken.Add(1)
		if !r.c.Reconnect {
			r.tally.example("a connection broke: " + err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, redialPauseMax)
	}
}

const idlePause = 2 * time.Second

// idle keeps a connection open and sees now and then that it lives.
func (r *run) idle(ctx context.Context, i int) {
	r.connected(ctx, i, false, func(k *client) error {
		wait := idlePause * time.Duration(i%16+1) / 16
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			wait = idlePause
			began := time.Now()
			a, err := k.do("PING")
			if err != nil {
				return err
			}
			r.tally.done(cmdPing, began)
			if !a.is("PONG") {
				r.tally.failed(cmdPing, string(a.text))
			}
		}
	})
}
