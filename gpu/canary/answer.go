package canary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/gpu"
)

// Bounds of an answer.
const (
	answerBytesMax  = 256 << 10
	answerTextMax   = 4096
	answerChecksMax = 64
)

// message is a line of the child's answer: where it is, that it got stuck there,
// or its verdict. The last line is one of the last two.
type message struct {
	At      string       `json:"at,omitempty"`
	Tried   bool         `json:"tried,omitempty"`
	Hung    bool         `json:"hung,omitempty"`
	Nonce   string       `json:"nonce,omitempty"`
	Verdict *gpu.Verdict `json:"verdict,omitempty"`
}

// answer is all that a child said.
type answer struct {
	at      string // the last step that it began
	tried   bool   // whether that was beyond the point where the path is tried
	hung    bool   // it says that this step does not come back
	verdict *gpu.Verdict
}

// errNoVerdict says that an answer ends before its verdict.
var errNoVerdict = errors.New("no verdict")

// parseAnswer reads what a child said. With an error the steps before it are
// there all the same. The bytes come from a process that libraries of others
// run in, so anything may stand in them.
func parseAnswer(b []byte, nonce string) (answer, error) {
	var a answer
	if len(b) > answerBytesMax {
		return a, fmt.Errorf("%d bytes, the most are %d", len(b), answerBytesMax)
	}
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			break // it ended within a line
		}
		b = rest
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return a, fmt.Errorf("line %q: %w", shorten(string(line)), err)
		}
		if m.Verdict == nil {
			a.tried, a.hung = a.tried || m.Tried, a.hung || m.Hung
			if m.At != "" {
				a.at = shorten(m.At)
			}
			continue
		}
		if m.Nonce != nonce {
			return a, fmt.Errorf("nonce %q, want %q", shorten(m.Nonce), nonce)
		}
		if err := checkVerdict(m.Verdict); err != nil {
			return a, err
		}
		if len(b) > 0 {
			return a, fmt.Errorf("%d bytes behind the verdict", len(b))
		}
		a.verdict = m.Verdict
		return a, nil
	}
	return a, errNoVerdict
}

// checkVerdict holds a verdict to what a canary can have found: proven only
// after passed checks, refused only with a reason.
func checkVerdict(v *gpu.Verdict) error {
	if len(v.Checks) > answerChecksMax || len(v.Notes) > answerChecksMax {
		return fmt.Errorf("%d checks and %d notes, the most are %d", len(v.Checks), len(v.Notes), answerChecksMax)
	}
	for _, s := range append([]string{v.Name, v.Reason}, v.Notes...) {
		if len(s) > answerTextMax {
			return fmt.Errorf("a text of %d bytes, the most are %d", len(s), answerTextMax)
		}
	}
	passed := map[string]bool{}
	for _, c := range v.Checks {
		if len(c.Name)+len(c.Detail) > answerTextMax {
			return fmt.Errorf("a check of %d bytes, the most are %d", len(c.Name)+len(c.Detail), answerTextMax)
		}
		passed[c.Name] = c.Passed
	}
	switch v.State {
	case gpu.VerdictProven:
		for _, name := range requiredChecks {
			if !passed[name] {
				return fmt.Errorf("proven without the check %q", name)
			}
		}
		if !v.Tried || v.Reason != "" || v.Name != "" || v.Code != 0 {
			return fmt.Errorf("proven, and tried %t, code %d, %s: %s", v.Tried, v.Code, v.Name, shorten(v.Reason))
		}
	case gpu.VerdictRefused:
		if v.Name == "" || v.Reason == "" {
			return errors.New("refused without a name or a reason")
		}
	default:
		return fmt.Errorf("state %q", shorten(string(v.State)))
	}
	return nil
}

// shorten keeps texts of others within a line of a log.
func shorten(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
