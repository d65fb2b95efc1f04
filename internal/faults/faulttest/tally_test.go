package faulttest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/internal/faults"
)

// fakeT stands for a test: it keeps what is reported and runs its cleanups
// when asked.
type fakeT struct {
	testing.TB
	errors   []string
	cleanups []func()
	skipped  bool
}

func (f *fakeT) Helper()           {}
func (f *fakeT) Name() string      { return "TestFake" }
func (f *fakeT) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *fakeT) Failed() bool      { return len(f.errors) > 0 }
func (f *fakeT) Skipped() bool     { return f.skipped }
func (f *fakeT) Errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeT) end() {
	for _, fn := range f.cleanups {
		fn()
	}
}

func run(t *testing.T, test func(*fakeT, *Tally)) (*fakeT, []faults.Record) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "faults.jsonl")
	t.Setenv(faults.LogVariable, name)
	f := &fakeT{}
	test(f, New(f))
	f.end()
	in, err := os.Open(name)
	if os.IsNotExist(err) {
		return f, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	records, err := faults.ReadLog(in)
	if err != nil {
		t.Fatal(err)
	}
	return f, records
}

func TestTally(t *testing.T) {
	cases := map[string]struct {
		test   func(*fakeT, *Tally)
		want   []faults.Record
		errors string
	}{
		"survived": {func(_ *fakeT, y *Tally) {
			for range 3 {
				f := y.Try("a")
				f.Fire()
				f.Survive()
			}
			y.Settle()
			y.Seeds(2)
			y.Kills(1)
		}, []faults.Record{{Test: "TestFake", Faults: 3, Survived: 3, Seeds: 2, Kills: 1}}, ""},
		"a fault that did not happen": {func(_ *fakeT, y *Tally) { y.Try("a").Survive() },
			[]faults.Record{{Test: "TestFake", Faults: 1, Failed: true}}, `the fault "a" did not happen`},
		"not survived": {func(_ *fakeT, y *Tally) { y.Try("a").Fire() },
			[]faults.Record{{Test: "TestFake", Faults: 1, Failed: true}}, `the fault "a" was not survived`},
		"wrong bytes": {func(_ *fakeT, y *Tally) { y.WrongBytes(0); y.WrongBytes(5) },
			[]faults.Record{{Test: "TestFake", WrongBytes: 5, Failed: true}}, "5 WRONG BYTES"},
		"skipped": {func(f *fakeT, _ *Tally) { f.skipped = true }, nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, got := run(t, c.test)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if all := strings.Join(f.errors, "\n"); (c.errors == "") != (all == "") || !strings.Contains(all, c.errors) {
				t.Errorf("reported %q, want %q", all, c.errors)
			}
		})
	}
}
