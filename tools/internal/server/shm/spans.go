package shm

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// SpansMax bounds the spans of one list.
const SpansMax = 4096

// Span is a piece of a region, in bytes.
type Span struct {
	Region         int64
	Offset, Length int64
}

// ErrSpans: a list of spans is malformed, or names what is not there.
var ErrSpans = errors.New("spans")

// ParseSpans reads "region:offset:length[,…]": decimal numbers without signs
// or blanks, at least one span, no span of length 0.
func ParseSpans(text []byte) ([]Span, error) {
	n := bytes.Count(text, comma) + 1
	if n > SpansMax {
		return nil, fmt.Errorf("%w: %d in one list, %d are allowed", ErrSpans, n, SpansMax)
	}
	out := make([]Span, 0, n)
	for one := range bytes.SplitSeq(text, comma) {
		s, ok := parseSpan(one)
		if !ok {
			return nil, fmt.Errorf("%w: number %d of the list is malformed: want region:offset:length with a length of at least 1", ErrSpans, len(out)+1)
		}
		out = append(out, s)
	}
	return out, nil
}

var comma, colon = []byte(","), []byte(":")

func parseSpan(text []byte) (s Span, ok bool) {
	region, rest, _ := bytes.Cut(text, colon)
	offset, length, _ := bytes.Cut(rest, colon)
	var good [3]bool
	s.Region, good[0] = number(region)
	s.Offset, good[1] = number(offset)
	s.Length, good[2] = number(length)
	return s, good == [3]bool{true, true, true} && s.Length > 0
}

// number reads digits and nothing else.
func number(text []byte) (n int64, ok bool) {
	for _, b := range text {
		d := int64(b) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(text) > 0
}
