package gputest

import (
	"fmt"
	"strings"
)

// Kind is what a fault does to the call that it fires in.
type Kind string

// Kinds of faults. Not every call can fail in every way; the doubles refuse what
// they cannot do.
const (
	Fail      Kind = ""          // return Code; cuFileRead returns it negated
	Errno     Kind = "errno"     // cuFileRead: -1 with Code in errno
	Short     Kind = "short"     // cuFileRead: half is read, and said so
	Zero      Kind = "zero"      // cuFileRead: nothing is read, and said so
	Over      Kind = "over"      // cuFileRead: more is counted than was asked for
	Stale     Kind = "stale"     // success, nothing is written (reads, copies)
	Half      Kind = "half"      // success, only half is written (reads, copies)
	Flip      Kind = "flip"      // success, one bit is wrong (reads, copies)
	Shift     Kind = "shift"     // cuFileRead: success, bytes of 4 KiB further on
	Neighbour Kind = "neighbour" // cuFileRead: success, bytes land beside the destination
	Late      Kind = "late"      // cuFileRead: success, bytes land after the return
	Hang      Kind = "hang"      // blocks until Release, then goes on
	Stuck     Kind = "stuck"     // work on a stream: accepted, not done until Release
	Lost      Kind = "lost"      // the context is dead from here on; Code, or 719
	Skip      Kind = "skip"      // cuLaunchKernel: success, does not run
	Liar      Kind = "liar"      // cuLaunchKernel: success, every piece matches
	Limit     Kind = "limit"     // refuses what makes the sum exceed Code bytes
)

// Only limits a fault to the calls in one device's context. The zero value
// limits nothing.
type Only int

// OnDevice limits a fault to a device.
func OnDevice(ordinal int) Only { return Only(ordinal + 1) }

// Fault says how a call fails, and when.
type Fault struct {
	Kind  Kind
	Code  int  // the code, errno or number of bytes that the kind takes
	From  int  // the first call to fail, counted from when it is set; 0 is 1
	Count int  // how many fail; 0 is all from then on
	Only  Only // on one device
}

// spec is the fault of a call as text.
func (f Fault) spec(call string) string {
	var b strings.Builder
	b.WriteString(call + "=")
	switch {
	case f.Kind == Fail:
		fmt.Fprintf(&b, "%d", f.Code)
	case f.Code != 0:
		fmt.Fprintf(&b, "%s:%d", f.Kind, f.Code)
	default:
		b.WriteString(string(f.Kind))
	}
	if f.Only != 0 {
		fmt.Fprintf(&b, "/%d", int(f.Only)-1)
	}
	if f.From > 1 || f.Count > 0 {
		fmt.Fprintf(&b, "@%d", max(f.From, 1))
	}
	if f.Count > 0 {
		fmt.Fprintf(&b, "+%d", f.Count)
	}
	return b.String()
}
