package trace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	twoLines = `{"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 1536, "output_length": 5, "hash_ids": [0, 1, 2]}
`
	sessionA = `{"id":"a","block_size":64,"hash_id_scope":"local","requests":[{"t":0.0,"in":128,"out":1,"hash_ids":[1,2]},{"t":2.5,"in":192,"out":1,"hash_ids":[1,2,3]}]}`
	sessionB = `{"id":"b","block_size":64,"requests":[{"t":1,"hash_ids":[1]}]}`
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     *Trace
	}{
		{"mooncake", twoLines, &Trace{FormatMooncake, 512, []Request{
			{0, "", []uint64{0, 1}}, {1500 * time.Millisecond, "", []uint64{0, 1, 2}}}}},
		{"mooncake without a last newline", strings.TrimSpace(twoLines), &Trace{FormatMooncake, 512, []Request{
			{0, "", []uint64{0, 1}}, {1500 * time.Millisecond, "", []uint64{0, 1, 2}}}}},
		{"request without blocks", `{"timestamp": 7, "hash_ids": []}`, &Trace{FormatMooncake, 512, []Request{
			{7 * time.Millisecond, "", []uint64{}}}}},
		{"agentic", sessionA, &Trace{FormatAgentic, 64, []Request{
			{0, "a", []uint64{1, 2}}, {2500 * time.Millisecond, "a", []uint64{1, 2, 3}}}}},
		{"session without an id", `{"block_size":16,"requests":[{"t":0,"hash_ids":[9]}]}`, &Trace{FormatAgentic, 16, []Request{
			{0, "session without an id", []uint64{9}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.name, strings.NewReader(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		line     int
		reason   string
	}{
		{"empty", "", 0, "empty"},
		{"blank", " \n\t\n", 0, "empty"},
		{"text", "once upon a time\n", 1, "not a trace"},
		{"binary", "\x00\x01\x02", 1, "not a trace"},
		{"another json", `{"hello":"world"}`, 1, "not a trace"},
		{"list", `[1,2,3]`, 1, "not a trace"},
		{"cut in a line", twoLines[:len(twoLines)-20], 2, "cut"},
		{"garbage in the middle", twoLines + "x\n" + twoLines, 3, "not a request"},
		{"no ids", `{"timestamp": 1}`, 1, "hash_ids"},
		{"no time", `{"hash_ids": [1]}`, 1, "timestamp"},
		{"ids of a wrong type", `{"timestamp": 1, "hash_ids": "many"}`, 1, "hash_ids"},
		{"id of a wrong type", twoLines + `{"timestamp": 1, "hash_ids": [1, "2"]}`, 3, "hash_ids"},
		{"negative id", `{"timestamp": 1, "hash_ids": [-1]}`, 1, "hash_ids"},
		{"id twice", `{"timestamp": 1, "hash_ids": [4, 5, 4]}`, 1, "twice"},
		{"negative time", `{"timestamp": -1, "hash_ids": [1]}`, 1, "out of range"},
		{"time without end", `{"timestamp": 1e300, "hash_ids": [1]}`, 1, "out of range"},
		{"cut session", sessionA[:len(sessionA)-30], 1, "cut"},
		{"session without requests", `{"block_size":64}`, 0, "requests"},
		{"session without a request", `{"block_size":64,"requests":[]}`, 0, "no request"},
		{"session without block size", `{"requests":[{"t":0,"hash_ids":[1]}]}`, 0, "block_size"},
		{"session of block size 0", `{"block_size":0,"requests":[{"t":0,"hash_ids":[1]}]}`, 0, "block_size 0"},
		{"requests of a wrong type", "{\"block_size\":64,\n\"requests\":7}", 2, "requests"},
		{"request of a wrong type", `{"block_size":64,"requests":[{"t":0,"hash_ids":[1]},5]}`, 0, "request 1"},
		{"session id twice", `{"block_size":64,"requests":[{"t":0,"hash_ids":[1,1]}]}`, 0, "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("in.json", strings.NewReader(c.in))
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, ErrFormat) {
				t.Fatalf("got %v, want a *FormatError", err)
			}
			if fe.File != "in.json" || fe.Line != c.line || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got line %d of %q: %v; want line %d and %q", fe.Line, fe.File, err, c.line, c.reason)
			}
		})
	}
}

func TestReadDirMergesByTime(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "one.json", sessionA)
	write(t, dir, "two.json", sessionB)
	write(t, dir, "notes.txt", "not a session")
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := &Trace{FormatAgentic, 64, []Request{
		{0, "one", []uint64{1, 2}},
		{time.Second, "two", []uint64{1}},
		{2500 * time.Millisecond, "one", []uint64{1, 2, 3}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestReadRefuses(t *testing.T) {
	empty, mixed, sizes := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, mixed, "a.json", sessionA)
	write(t, mixed, "b.json", twoLines)
	write(t, sizes, "a.json", sessionA)
	write(t, sizes, "b.json", strings.Replace(sessionB, "64", "32", 1))
	for _, c := range []struct {
		path, reason string
		want         error
	}{
		{filepath.Join(empty, "absent"), "absent", os.ErrNotExist},
		{empty, "no session", ErrFormat},
		{mixed, "mooncake trace among", ErrFormat},
		{sizes, "block_size 32 differs", ErrFormat},
	} {
		if _, err := Read(c.path); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("Read(%s) = %v, want %v with %q", c.path, err, c.want, c.reason)
		}
	}
}

func TestHeadAndInfiniteHits(t *testing.T) {
	tr := &Trace{Requests: []Request{
		{0, "a", []uint64{1, 2, 3}},
		{0, "a", []uint64{1, 2, 4}},
		{0, "b", []uint64{1, 2}},    // another scope: no hit
		{0, "a", []uint64{9, 1, 2}}, // 9 is new: its prefix is no prefix
		{0, "a", []uint64{1, 2, 4, 5}},
	}}
	for n, want := range map[int]int64{1: 0, 2: 2, 3: 2, 4: 2, 5: 5, 0: 5, 99: 5} {
		if got := tr.Head(n).InfiniteHits(); got != want {
			t.Errorf("InfiniteHits of %d requests = %d, want %d", n, got, want)
		}
	}
	if got := tr.Head(2).References(); got != 6 {
		t.Errorf("References = %d, want 6", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{twoLines, sessionA, sessionB, "", "{", twoLines[:40], `{"requests":[{}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Parse("fuzz", strings.NewReader(string(data)))
		if err != nil {
			if tr != nil || !errors.Is(err, ErrFormat) {
				t.Fatalf("a trace beside an error, or an untyped one: %v", err)
			}
			return
		}
		if len(tr.Requests) == 0 || tr.TokensPerBlock < 1 || tr.InfiniteHits() > tr.References() {
			t.Fatalf("nonsense accepted: %+v", tr)
		}
	})
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
