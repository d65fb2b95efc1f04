package canary

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu"
)

func line(t testing.TB, m message) string {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestParseAnswer(t *testing.T) {
	proven := func(change func(*gpu.Verdict)) message {
		v := provenVerdict("/dir", testKey)
		change(&v)
		return message{Nonce: "n", Verdict: &v}
	}
	same := func(*gpu.Verdict) {}
	refused := func(v *gpu.Verdict) {
		v.State, v.Name, v.Reason, v.Checks = gpu.VerdictRefused, "a", "b", nil
	}
	at := line(t, message{At: "first"}) + line(t, message{At: "second", Tried: true})
	for name, c := range map[string]struct {
		said string
		says string // of the error; "" is none
	}{
		"proven":            {at + line(t, proven(same)), ""},
		"refused":           {at + line(t, proven(refused)), ""},
		"nothing":           {"", "no verdict"},
		"steps alone":       {at, "no verdict"},
		"a cut verdict":     {at + strings.TrimSuffix(line(t, proven(same)), "\n"), "no verdict"},
		"stuck":             {at + line(t, message{Hung: true}), "no verdict"},
		"no JSON":           {at + "Segmentation fault\n", "line \"Segmentation fault\""},
		"an empty line":     {at + "\n", "line \"\""},
		"another nonce":     {line(t, message{Nonce: "x", Verdict: proven(same).Verdict}), "nonce \"x\""},
		"no nonce":          {line(t, message{Verdict: proven(same).Verdict}), "nonce \"\""},
		"bytes behind":      {line(t, proven(same)) + at, "behind the verdict"},
		"two verdicts":      {line(t, proven(refused)) + line(t, proven(same)), "behind the verdict"},
		"unknown state":     {line(t, proven(func(v *gpu.Verdict) { v.State = "" })), "state \"\""},
		"proven, untried":   {line(t, proven(func(v *gpu.Verdict) { v.Tried = false })), "tried false"},
		"proven, a code":    {line(t, proven(func(v *gpu.Verdict) { v.Code = 5001 })), "code 5001"},
		"proven, a reason":  {line(t, proven(func(v *gpu.Verdict) { v.Reason = "x" })), ": x"},
		"refused, no words": {line(t, proven(func(v *gpu.Verdict) { v.State = gpu.VerdictRefused })), "without a name"},
		"a failed check":    {line(t, proven(func(v *gpu.Verdict) { v.Checks[3].Passed = false })), "without the check"},
		"a check failed later": {line(t, proven(func(v *gpu.Verdict) {
			v.Checks = append(v.Checks, gpu.VerdictCheck{Name: checkReads})
		})), "without the check"},
		"many checks":  {line(t, proven(func(v *gpu.Verdict) { v.Checks = make([]gpu.VerdictCheck, answerChecksMax+1) })), "65 checks"},
		"a long text":  {line(t, proven(func(v *gpu.Verdict) { v.Notes = []string{strings.Repeat("x", answerTextMax+1)} })), "a text of"},
		"a long check": {line(t, proven(func(v *gpu.Verdict) { v.Checks[0].Detail = strings.Repeat("x", answerTextMax) })), "a check of"},
		"too long":     {strings.Repeat("{}\n", answerBytesMax), "the most are"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := parseAnswer([]byte(c.said), "n")
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want %q", err, c.says)
			}
			if (a.verdict != nil) != (err == nil) {
				t.Errorf("verdict %v beside the error %v", a.verdict, err)
			}
			if a.hung != (name == "stuck") {
				t.Errorf("hung: %t", a.hung)
			}
			if strings.HasPrefix(c.said, at) && (a.at != "second" || !a.tried) {
				t.Errorf("it was at %q, tried %t", a.at, a.tried)
			}
		})
	}
}

// TestEveryCheckIsRequired: a verdict that lacks any of the checks, or has it
// failed, is not proven.
func TestEveryCheckIsRequired(t *testing.T) {
	for i, name := range requiredChecks {
		v := provenVerdict("/dir", testKey)
		v.Checks = append(v.Checks[:i:i], v.Checks[i+1:]...)
		if err := checkVerdict(&v); err == nil {
			t.Errorf("without %s", name)
		}
		v = provenVerdict("/dir", testKey)
		v.Checks[i].Passed = false
		if err := checkVerdict(&v); err == nil {
			t.Errorf("with %s failed", name)
		}
	}
}

// TestStepsAreTheRequiredChecks holds the list to what a trial does.
func TestStepsAreTheRequiredChecks(t *testing.T) {
	steps := (&trial{}).steps()
	if len(steps) != len(requiredChecks) {
		t.Fatalf("%d steps, %d required checks", len(steps), len(requiredChecks))
	}
	for i, s := range steps {
		if s.check != requiredChecks[i] {
			t.Errorf("step %d is %q, required is %q", i, s.check, requiredChecks[i])
		}
	}
}

// FuzzAnswer: whatever a child says, only its whole verdict with the nonce
// proves anything.
func FuzzAnswer(f *testing.F) {
	v := provenVerdict("/dir", testKey)
	f.Add([]byte(line(f, message{At: "a", Tried: true}) + line(f, message{Nonce: "n", Verdict: &v})))
	f.Add([]byte(`{"nonce":"n","verdict":{"state":"refused","name":"a","reason":"b"}}` + "\n"))
	f.Add([]byte(`{"verdict":null}` + "\n" + `{"at":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAnswer(b, "n")
		if (err == nil) != (a.verdict != nil) {
			t.Fatalf("verdict %v, error %v", a.verdict, err)
		}
		if err == nil {
			if err := checkVerdict(a.verdict); err != nil {
				t.Fatalf("a verdict that does not hold: %v", err)
			}
			if !strings.Contains(string(b), "n") {
				t.Fatal("a verdict without the nonce")
			}
		}
		if len(a.at) > answerTextMax {
			t.Fatalf("a step of %d bytes", len(a.at))
		}
	})
}
