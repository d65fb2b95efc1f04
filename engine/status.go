package engine

import "fmt"

// Status is the outcome for one block. The zero value is no outcome: a
// result that was never filled in can not be taken for success.
type Status uint8

const (
	statusNone Status = iota
	// StatusOK: a get verified every byte and copied it; a put is stored (or
	// an equal key was stored already, see PutResult.Existed).
	StatusOK
	// StatusMiss: the store does not hold the block. Compute it.
	StatusMiss
	// StatusCorrupt: the block was there and its bytes or its header did not
	// verify. It is a miss with a reason; it has been quarantined, or will be.
	StatusCorrupt
	// StatusIOError: the device or file system failed. A get may be tried
	// again; a put is unknown: later wholly visible, or not at all.
	StatusIOError
	// StatusTimeout: the context ended first. A put is unknown.
	StatusTimeout
	// StatusShed: a bound was reached (queue, memory, disk, write budget,
	// read-only store) and the work was refused before anything was visible.
	StatusShed
	// StatusTooLarge: the block exceeds Options.MaxBlockBytes.
	StatusTooLarge
	// StatusLengthMismatch: spans, planes or ranges do not add up to what is
	// stored or declared, or a source seal does not match the bytes.
	StatusLengthMismatch
	// StatusLayoutMismatch: the block's planes are not those of the layout.
	StatusLayoutMismatch
	// StatusStaleEpoch: the namespace handle was opened before BumpEpoch.
	StatusStaleEpoch
	// StatusClosed: the store is closed or closing.
	StatusClosed
	// StatusInvalid: the request is malformed (hash length, negative range,
	// overlapping spans …); BlockError.Reason says how.
	StatusInvalid

	statusCount
)

var statusNames = [statusCount]string{
	"None", "OK", "Miss", "Corrupt", "IOError", "Timeout", "Shed", "TooLarge",
	"LengthMismatch", "LayoutMismatch", "StaleEpoch", "Closed", "Invalid",
}

// String is the status as design documents, logs and metrics name it.
func (s Status) String() string {
	if s < statusCount {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Statuses lists every status that a result can carry, for metrics.
func Statuses() []Status {
	all := make([]Status, 0, statusCount-1)
	for s := StatusOK; s < statusCount; s++ {
		all = append(all, s)
	}
	return all
}
