package aligned

import (
	"errors"
	"strings"
	"testing"
)

func takenHere(t *testing.T, p *Pool) *Buffer { return mustGet(t, p, 10) }

// TestLeakedBuffersAreNamed: Close says how many, how much and from where.
func TestLeakedBuffersAreNamed(t *testing.T) {
	p := New(Options{LimitBytes: 1 << 20, RecordSites: true})
	var out []*Buffer
	for range 3 {
		out = append(out, takenHere(t, p))
	}
	takenHere(t, p).Free()
	other, err := p.Get(t.Context(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Close()
	if !errors.Is(err, ErrLeaked) {
		t.Fatalf("Close: %v", err)
	}
	for _, want := range []string{
		"4 of 20480 bytes together; 3 taken at ", "aligned.takenHere:", "; 1 taken at ", "aligned.TestLeakedBuffersAreNamed:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not tell %q", err, want)
		}
	}
	for _, b := range append(out, other) {
		b.Free()
	}
	mustClose(t, p)
}

// TestManySitesAreCut: an error stays readable.
func TestManySitesAreCut(t *testing.T) {
	p := New(Options{LimitBytes: 1 << 20, RecordSites: true})
	var out []*Buffer
	takers := []func(){
		func() { out = append(out, mustGet(t, p, 1)) }, func() { out = append(out, mustGet(t, p, 1)) },
		func() { out = append(out, mustGet(t, p, 1)) }, func() { out = append(out, mustGet(t, p, 1)) },
		func() { out = append(out, mustGet(t, p, 1)) }, func() { out = append(out, mustGet(t, p, 1)) },
		func() { out = append(out, mustGet(t, p, 1)) },
	}
	for _, take := range takers {
		take()
	}
	if err := p.Close(); strings.Count(err.Error(), "taken at") != sitesMax || !strings.HasSuffix(err.Error(), "and 2 other places") {
		t.Errorf("%v", err)
	}
	for _, b := range out {
		b.Free()
	}
	mustClose(t, p)
}
