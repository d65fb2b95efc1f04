package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// mooncakeTokens is the block size of all published Mooncake traces; the
// format does not carry it.
const mooncakeTokens = 512

// mooncakeLine is one request. Pointers tell an absent field from a zero.
type mooncakeLine struct {
	TimestampMS *float64  `json:"timestamp"`
	HashIDs     *[]uint64 `json:"hash_ids"`
}

func parseMooncake(name string, data []byte) (*Trace, error) {
	t := &Trace{Format: FormatMooncake, TokensPerBlock: mooncakeTokens}
	offset := int64(0)
	for n := 1; len(data) > 0; n++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		if len(bytes.TrimSpace(line)) > 0 {
			r, err := parseMooncakeLine(line)
			if err != nil {
				return nil, lineError(name, n, offset, err, len(rest) == 0)
			}
			t.Requests = append(t.Requests, r)
		}
		offset += int64(len(data) - len(rest))
		data = rest
	}
	return t, nil
}

func parseMooncakeLine(line []byte) (Request, error) {
	var l mooncakeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return Request{}, err
	}
	if l.TimestampMS == nil || l.HashIDs == nil {
		return Request{}, errors.New("a request needs the fields timestamp and hash_ids")
	}
	at, err := arrival(*l.TimestampMS, time.Millisecond)
	if err != nil {
		return Request{}, err
	}
	return Request{At: at, IDs: *l.HashIDs}, checkChain(*l.HashIDs)
}

// lineError places err in the file; last says that nothing follows the line,
// which is what a file that was cut looks like.
func lineError(name string, line int, offset int64, err error, last bool) error {
	e := &FormatError{File: name, Line: line, Offset: offset, Reason: "not a request", Err: err}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		e.Offset += syntax.Offset
		if last {
			e.Reason = "not a request; the file seems to be cut here"
		}
	}
	return e
}

// maxArrival keeps times far away from overflow.
const maxArrival = 100 * 365 * 24 * time.Hour

func arrival(value float64, unit time.Duration) (time.Duration, error) {
	// The comparison is written so that NaN fails it.
	if ns := value * float64(unit); ns >= 0 && ns <= float64(maxArrival) {
		return time.Duration(ns), nil
	}
	return 0, fmt.Errorf("time of arrival %v is out of range", value)
}

// checkChain refuses a block that occurs twice in one request: an id stands
// for a whole prefix, and no prefix contains itself.
func checkChain(ids []uint64) error {
	seen := make(map[uint64]struct{}, len(ids))
	for i, id := range ids {
		if _, twice := seen[id]; twice {
			return fmt.Errorf("block id %d occurs twice in one request (position %d)", id, i)
		}
		seen[id] = struct{}{}
	}
	return nil
}
