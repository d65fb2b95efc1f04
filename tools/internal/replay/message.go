package replay

import "github.com/sealstone/sealstone/engine"

// The kinds of messages from the child to the parent, in the order in which
// things happen. A message is one line of JSON.
const (
	msgReady    = "ready"    // the store is open
	msgPut      = "put"      // these blocks are about to be put
	msgAcked    = "acked"    // the put answered; Acked are the blocks with OK
	msgDropping = "dropping" // these blocks are about to be dropped
	msgDropped  = "dropped"  // the drop answered OK
	msgDone     = "done"     // a request is finished
	msgError    = "error"    // the child gives up
	msgEnd      = "end"      // all requests are finished
)

type message struct {
	Kind    string
	Request int      `json:",omitempty"`
	Blocks  []int    `json:",omitempty"` // positions in the request
	Acked   []int    `json:",omitempty"`
	Outcome *Outcome `json:",omitempty"`
	// Counters come with msgPut and msgDone: often enough to account for what
	// was evicted, and not with each message, since a store has to work them out.
	Counters *Counters `json:",omitempty"`
	Text     string    `json:",omitempty"`
	Locked   bool      `json:",omitempty"` // the error is that the store is in use
}

// childError is what a child gave up with.
type childError struct {
	text   string
	locked bool
}

func (e *childError) Error() string { return ErrChild.Error() + ": " + e.text }

func (e *childError) Is(target error) bool {
	return target == ErrChild || e.locked && target == engine.ErrLocked
}
