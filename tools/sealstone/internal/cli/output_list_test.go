package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestListReport(t *testing.T) {
	type item struct{ A int }
	type report struct {
		Items []item `json:"items"`
		Sum   int    `json:"sum"`
		Error string `json:"error"`
	}
	for _, items := range []int{0, 1, 3} {
		for name, end := range map[string]func(*listReport) error{
			"report": func(l *listReport) error { return l.end(map[string]int{"sum": 7}) },
			"empty":  func(l *listReport) error { return l.end(struct{}{}) },
			"failed": func(l *listReport) error { return l.fail(errors.New("no\nluck")) },
		} {
			var out bytes.Buffer
			l, err := (&outputFlags{json: "-"}).list(&environment{stdout: &out}, "items")
			if err != nil {
				t.Fatal(err)
			}
			for i := range items {
				if err := l.add(item{i}); err != nil {
					t.Fatal(err)
				}
			}
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			var r report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Items) != items || r.Items == nil || name == "report" && r.Sum != 7 || name == "failed" && r.Error != "no luck" {
				t.Errorf("%s of %d: %v, %s", name, items, err, out.String())
			}
		}
	}
}

func TestListReportFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	l, err := (&outputFlags{json: path}).list(&environment{}, "items")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.end(map[string]int{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !json.Valid(b) {
		t.Errorf("%s, %v", b, err)
	}
	if l, err := (&outputFlags{}).list(&environment{}, "items"); l != nil || err != nil {
		t.Errorf("without --json: %v, %v", l, err)
	}
	if _, err := (&outputFlags{json: "/nonexistent/x"}).list(&environment{}, "items"); err == nil {
		t.Error("a file that can not be made")
	}
	full, err := (&outputFlags{json: "-"}).list(&environment{stdout: fullDisk{}}, "items")
	if err != nil {
		t.Fatal(err)
	}
	if err := full.end(struct{}{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("no space")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
