package disk

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The boxes beside the codecs and those in docs/format are the same.
func TestDocsShowTheBoxes(t *testing.T) {
	for source, page := range map[string]string{
		"preamble.go":    "segment.md",
		"segment.go":     "segment.md",
		"footer.go":      "segment.md",
		"trailer.go":     "segment.md",
		"extentcodec.go": "extent.md",
		"tombstone.go":   "tombstone.md",
	} {
		code, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := os.ReadFile("../../docs/format/" + page)
		if err != nil {
			t.Fatal(err)
		}
		var box strings.Builder
		for line := range strings.Lines(string(code)) {
			if row, ok := strings.CutPrefix(line, "//\t"); ok {
				box.WriteString(row)
			}
		}
		if box.Len() == 0 || !bytes.Contains(doc, []byte(box.String())) {
			t.Errorf("%s does not show the box of %s:\n%s", page, source, box.String())
		}
	}
}
