package replay

import "time"

// Outcome is what became of one request.
type Outcome struct {
	Request    int
	References int // blocks of the request
	Hits       int // of these, blocks that were read and right
	Stored     int // of the rest, blocks that the store took
	Existed    int // of the rest, blocks that it had (behind a gap)
	Shed       int

	PutBytes      int64 // bytes of the blocks it took
	VerifiedBytes int64 // bytes compared
	WrongBytes    int64 // bytes that differed, or changed beside a miss

	GetStatuses map[string]int64
	PutStatuses map[string]int64
	MatchErrors int64

	Match time.Duration
	Gets  Latencies // one per call
	Puts  Latencies // one per call

	Problems []string // the first few, in words
}

// maxProblems bounds the words, not the counts.
const maxProblems = 10

func (o *Outcome) problem(text string) {
	if len(o.Problems) < maxProblems {
		o.Problems = append(o.Problems, text)
	}
}

func count(m *map[string]int64, status string) {
	if *m == nil {
		*m = map[string]int64{}
	}
	(*m)[status]++
}
