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
	p := &progress{bar: newBar(&b, "work")}
	p.set(0, 0) // a job whose length is not known yet
	p.set(1, 4)
	p.set(4, 4)
	p.end()
	if !strings.Contains(b.String(), "work") || !strings.Contains(b.String(), "/4)") {
		t.Errorf("the bar shows %q", b.String())
	}
}
