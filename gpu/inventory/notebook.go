package inventory

import "sync"

// walker asks a loaded library everything and writes down what it learns. It
// may be left behind in a call that never returns.
type walker func(n *notebook)

// notebook takes the answers of NVML from a goroutine that may hang in the
// driver. What was written before stays readable.
type notebook struct {
	mu     sync.Mutex
	call   string // what was begun last
	closed bool   // the notes were taken; nobody listens any more
	nvml   NVML
	gpus   []GPU
	links  []Link
}

// begin notes that a call starts; false: its answer would not be read.
func (n *notebook) begin(call string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.call = call
	return true
}

// write changes the notes, unless they were taken already.
func (n *notebook) write(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		change()
	}
}

// close takes the notes.
func (n *notebook) close() (NVML, []GPU, []Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	return n.nvml, n.gpus, n.links
}

// last is the call that was begun last.
func (n *notebook) last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.call
}
