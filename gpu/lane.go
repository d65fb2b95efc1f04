package gpu

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// lane is one CUDA stream with the goroutine that feeds it, one job after the
// other. Every call of the driver is made between begin and end, so that the
// watchdog sees one that does not return.
type lane struct {
	d       *Device
	n       int
	stream  driver.Stream
	event   driver.Event
	scratch scratch
	ended   chan struct{} // closed when the goroutine is gone

	mu    sync.Mutex
	call  string // the call under way, or empty
	since time.Time
	late  bool // the call under way was late when it was last looked at
	job   *job
}

func newLane(d *Device, n int) (*lane, error) {
	l := &lane{d: d, n: n, ended: make(chan struct{})}
	made := new(lane) // the call may outlive its wait
	err := d.guard("cuStreamCreate", func() (err error) { made.stream, err = d.c.StreamCreate(); return err })
	if err != nil {
		return nil, err
	}
	l.stream = made.stream
	event := new(driver.Event)
	if err := d.guard("cuEventCreate", func() (err error) { *event, err = d.c.EventCreate(); return err }); err != nil {
		_ = l.destroyStream()
		return nil, err
	}
	l.event = *event
	return l, nil
}

// run takes jobs until the device is closed.
func (l *lane) run() {
	defer close(l.ended)
	for j := range l.d.jobs {
		l.hold(j)
		j.run(l, j)
		l.hold(nil)
		j.finish()
	}
}

func (l *lane) hold(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job = j
}

// do makes one call of the driver, unless the device is lost or the job was
// given up.
func (l *lane) do(what string, f func() error) error {
	if err := l.d.lostErr(); err != nil {
		return err
	}
	l.begin(what)
	err := f()
	l.end()
	if err != nil {
		err = l.d.judge(err)
	}
	return err
}

func (l *lane) begin(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call, l.since, l.late = what, l.d.o.Clock.Now(), false
}

func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call = ""
}

// abandonIfHung declares the device lost if a call has not returned in time,
// and frees the caller of the job. It must be seen late twice: the first time
// the whole process may have stood still.
func (l *lane) abandonIfHung(now time.Time) {
	l.mu.Lock()
	call, j := l.call, l.job
	late := call != "" && now.Sub(l.since) >= l.d.o.HangTimeout
	again := late && l.late
	l.late = late
	l.mu.Unlock()
	if !again {
		return
	}
	_ = l.d.lose(fmt.Errorf("%s did not return within %v", call, l.d.o.HangTimeout))
	if j != nil {
		j.abandon()
	}
}

// settle waits until all that was enqueued on the stream is done. On an error
// nothing is known of it: the caller must set aside what it uses.
func (l *lane) settle(what string) error {
	query := func() (bool, error) { return l.d.c.EventQuery(l.event) }
	if err := l.do("cuEventRecord", func() error { return l.d.c.EventRecord(l.event, l.stream) }); err != nil {
		if isLost(err) {
			return err
		}
		// There is no event to wait for; the stream itself can be asked.
		query = func() (bool, error) { return l.d.c.StreamQuery(l.stream) }
	}
	deadline := l.d.o.Clock.Now().Add(l.d.o.HangTimeout)
	for turn := 0; ; turn++ {
		// Looked at before the question, so that the last answer counts even if
		// the process stood still meanwhile.
		late := !l.d.o.Clock.Now().Before(deadline)
		done := false
		if err := l.do("cuEventQuery", func() (err error) { done, err = query(); return err }); err != nil {
			// Whatever the error, the stream's state is unknown now, and no
			// later answer could be trusted.
			return l.d.lose(fmt.Errorf("waiting for %s: %w", what, err))
		}
		if done {
			return nil
		}
		if late {
			return l.d.lose(fmt.Errorf("%s did not end within %v", what, l.d.o.HangTimeout))
		}
		backOff(turn)
	}
}

const (
	yieldTurns = 32
	sleepFirst = 20 * time.Microsecond
	sleepMax   = 500 * time.Microsecond
)

// backOff waits a little longer each time: a copy of a block takes tens of
// microseconds, a long one may take milliseconds.
func backOff(turn int) {
	if turn < yieldTurns {
		runtime.Gosched()
		return
	}
	time.Sleep(min(sleepFirst<<min((turn-yieldTurns)/8, 10), sleepMax))
}

func (l *lane) destroyStream() error {
	return l.d.guard("cuStreamDestroy", func() error { return l.d.c.StreamDestroy(l.stream) })
}

// destroy gives everything of the lane back; its goroutine is gone.
func (l *lane) destroy() error {
	if err := l.scratch.free(l.d); err != nil {
		return err
	}
	if err := l.d.guard("cuEventDestroy", func() error { return l.d.c.EventDestroy(l.event) }); err != nil {
		return err
	}
	return l.destroyStream()
}
