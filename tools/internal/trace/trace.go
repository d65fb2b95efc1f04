package trace

import "time"

// The formats that [Read] tells apart by content.
const (
	FormatMooncake = "mooncake"
	FormatAgentic  = "agentic"
)

// Request is one request of a trace: the chain of blocks that its prompt
// consists of, the root first.
type Request struct {
	// At is the time of arrival since the trace began.
	At time.Duration
	// Scope is the space in which IDs are unique: "" in a trace whose ids are
	// global, else the name of the session.
	Scope string
	// IDs are the blocks in prefix order, each at most once.
	IDs []uint64
}

// Trace is a workload in order of arrival.
type Trace struct {
	// Format is FormatMooncake or FormatAgentic.
	Format string
	// TokensPerBlock is how many tokens one block id stands for.
	TokensPerBlock int
	Requests       []Request
}

// References counts the block references of all requests.
func (t *Trace) References() int64 {
	var n int64
	for _, r := range t.Requests {
		n += int64(len(r.IDs))
	}
	return n
}

// Head is the trace of the first n requests; n <= 0 or beyond the end means
// all. It shares memory with t.
func (t *Trace) Head(n int) *Trace {
	if n <= 0 || n >= len(t.Requests) {
		return t
	}
	h := *t
	h.Requests = t.Requests[:n:n]
	return &h
}

// InfiniteHits counts the references that a cache without limits would have
// answered, if it answers the longest stored prefix of each request.
func (t *Trace) InfiniteHits() int64 {
	var hits int64
	for _, n := range t.InfiniteHitsEach() {
		hits += int64(n)
	}
	return hits
}

// InfiniteHitsEach is InfiniteHits by request.
func (t *Trace) InfiniteHitsEach() []int {
	type key struct {
		scope string
		id    uint64
	}
	hits := make([]int, len(t.Requests))
	seen := make(map[key]struct{})
	for i, r := range t.Requests {
		prefix := true
		for _, id := range r.IDs {
			k := key{r.Scope, id}
			_, ok := seen[k]
			prefix = prefix && ok
			if prefix {
				hits[i]++
			}
			seen[k] = struct{}{}
		}
	}
	return hits
}
