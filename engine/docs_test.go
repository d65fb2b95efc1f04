package engine

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocsNameEveryEvent: operators find each event, each state of health and
// each state of the scrubber on their page.
func TestDocsNameEveryEvent(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	named := func(word string) {
		for line := range strings.Lines(string(page)) {
			if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok && slices.Contains(strings.Split(first, ", "), word) {
				return
			}
		}
		t.Errorf("no row for %q in docs/operations.md", word)
	}
	for _, name := range eventNames {
		named(name)
	}
	for state := HealthOK; state <= HealthClosed; state++ {
		named(state.String())
	}
	for _, state := range []ScrubState{ScrubOff, ScrubIdle, ScrubReading, ScrubYielding, ScrubPaused} {
		named(string(state))
	}
}

// TestDocsShowTheBoxes: the encodings in the comments beside the codecs are
// those of the pages in docs/format.
func TestDocsShowTheBoxes(t *testing.T) {
	for _, c := range []struct{ source, after, page string }{
		{"record.go", "// Encoding of a record", "record.md"},
		{"index/key.go", "// Keys of the index", "index.md"},
		{"scrub_file.go", "// Position of the scrubber", "scrub.md"},
	} {
		code, err := os.ReadFile(c.source)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := os.ReadFile("../docs/format/" + c.page)
		if err != nil {
			t.Fatal(err)
		}
		_, behind, found := strings.Cut(string(code), c.after)
		var box strings.Builder
		for line := range strings.Lines(behind) {
			if row, ok := strings.CutPrefix(line, "//\t"); ok {
				box.WriteString(row)
			} else if box.Len() > 0 {
				break
			}
		}
		if !found || box.Len() == 0 || !strings.Contains(string(doc), box.String()) {
			t.Errorf("%s does not show the box of %s:\n%s", c.page, c.source, box.String())
		}
	}
}
