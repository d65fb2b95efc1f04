package inventory

import (
	"fmt"
	"sync"
	"time"
)

// desk lets one goroutine at a time into NVML. A call that never returns keeps
// its place: a second goroutine would only be lost beside it.
type desk struct {
	turn chan struct{}

	mu     sync.Mutex
	reason string // why NVML is not asked any more
}

func newDesk() *desk { return &desk{turn: make(chan struct{}, 1)} }

// process is the desk of this process, as there is one library.
var process = newDesk()

// ask loads the library and asks it, within a time. It ends early when done is
// closed, with a state that nobody reads.
func (d *desk) ask(load func() (walker, error), timeout time.Duration, done <-chan struct{}) (NVML, []GPU, []Link) {
	if reason := d.hung(); reason != "" {
		return NVML{State: NVMLHung, Reason: reason, Missing: []string{}}, nil, nil
	}
	n := &notebook{nvml: NVML{State: NVMLReady, Missing: []string{}}, call: "an earlier question"}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	finished := make(chan struct{})
	select {
	case d.turn <- struct{}{}:
		go d.serve(n, load, finished)
	case <-timer.C:
		return d.late(n, timeout)
	case <-done:
		return n.close()
	}
	select {
	case <-finished:
		return n.close()
	case <-timer.C:
		return d.late(n, timeout)
	case <-done:
		return n.close()
	}
}

func (d *desk) serve(n *notebook, load func() (walker, error), finished chan<- struct{}) {
	defer close(finished)
	defer func() { <-d.turn }()
	n.begin("loading the library")
	walk, err := load()
	if err != nil {
		n.write(func() { n.nvml = failed(err) })
		return
	}
	walk(n)
}

// late takes what was written until now and closes the desk.
func (d *desk) late(n *notebook, timeout time.Duration) (NVML, []GPU, []Link) {
	v, gpus, links := n.close()
	v.State, v.Code, v.Name = NVMLHung, 0, ""
	v.Reason = fmt.Sprintf("%s did not return within %v: the driver does not answer; look for Xid messages in the kernel's log", n.last(), timeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reason = v.Reason + " (this process does not ask again)"
	return v, gpus, links
}

func (d *desk) hung() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reason
}
