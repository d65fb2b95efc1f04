package replay

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
}
