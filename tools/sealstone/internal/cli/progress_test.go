package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	silent := newProgress(&environment{stderr: &b}, false, "work")
	silent.set(1, 2)
	silent.end()
	if b.Len() != 0 {
		t.Errorf("a bar without a terminal: %q", b.String())
	}
	p := &progress{bar: newBar(&b, "work", 0)}
	p.set(0, 0) // a job whose length is not known yet
	p.set(1, 4)
	p.set(4, 4)
	p.end()
	if !strings.Contains(b.String(), "work") || !strings.Contains(b.String(), "/4)") {
		t.Errorf("the bar shows %q", b.String())
	}
}

// TestProgressOfParts: the bar goes on after a part came to its end.
func TestProgressOfParts(t *testing.T) {
	var b bytes.Buffer
	p := &progress{bar: newBar(&b, "work", 0)}
	for _, part := range []string{"first", "second", "third"} {
		p.describe(part)
		for i := range int64(4) {
			p.set(i+1, 4)
		}
	}
	p.end()
	for _, part := range []string{"first", "second", "third"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%s is not shown: %q", part, b.String())
		}
	}
}
