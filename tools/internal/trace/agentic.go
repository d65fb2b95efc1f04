package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// session is one agentic file. Raw requests let an error name the request.
type session struct {
	ID        string             `json:"id"`
	BlockSize *int               `json:"block_size"`
	Requests  *[]json.RawMessage `json:"requests"`
}

type sessionRequest struct {
	TSeconds *float64  `json:"t"`
	HashIDs  *[]uint64 `json:"hash_ids"`
}

// maxTokensPerBlock is a bound against nonsense, far above any engine's.
const maxTokensPerBlock = 1 << 20

func parseAgentic(name string, data []byte) (*Trace, error) {
	var s session
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, jsonError(name, data, err)
	}
	switch {
	case s.BlockSize == nil || s.Requests == nil:
		return nil, &FormatError{File: name, Offset: -1, Reason: "a session needs the fields block_size and requests"}
	case *s.BlockSize < 1 || *s.BlockSize > maxTokensPerBlock:
		return nil, &FormatError{File: name, Offset: -1, Reason: fmt.Sprintf("block_size %d is outside 1..%d tokens", *s.BlockSize, maxTokensPerBlock)}
	case len(*s.Requests) == 0:
		return nil, &FormatError{File: name, Offset: -1, Reason: "the session has no request"}
	}
	scope := s.ID
	if scope == "" {
		scope = name
	}
	t := &Trace{Format: FormatAgentic, TokensPerBlock: *s.BlockSize}
	for i, raw := range *s.Requests {
		r, err := parseSessionRequest(raw)
		if err != nil {
			return nil, &FormatError{File: name, Offset: -1, Reason: fmt.Sprintf("request %d is malformed", i), Err: err}
		}
		r.Scope = scope
		t.Requests = append(t.Requests, r)
	}
	return t, nil
}

func parseSessionRequest(raw []byte) (Request, error) {
	var q sessionRequest
	if err := json.Unmarshal(raw, &q); err != nil {
		return Request{}, err
	}
	if q.TSeconds == nil || q.HashIDs == nil {
		return Request{}, errors.New("a request needs the fields t and hash_ids")
	}
	at, err := arrival(*q.TSeconds, time.Second)
	if err != nil {
		return Request{}, err
	}
	return Request{At: at, IDs: *q.HashIDs}, checkChain(*q.HashIDs)
}

// jsonError turns the byte offset of a JSON error into a line.
func jsonError(name string, data []byte, err error) error {
	e := &FormatError{File: name, Offset: -1, Reason: "not an agentic session", Err: err}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		e.Offset = syntax.Offset
		if errors.Is(err, io.ErrUnexpectedEOF) || syntax.Offset >= int64(len(data)) {
			e.Reason = "not an agentic session; the file seems to be cut here"
		}
	case errors.As(err, &typ):
		e.Offset = typ.Offset
	default:
		return e
	}
	e.Offset = min(e.Offset, int64(len(data)))
	e.Line = 1 + bytes.Count(data[:e.Offset], []byte("\n"))
	return e
}
