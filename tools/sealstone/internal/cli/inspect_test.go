package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// sampleStore makes a small closed store: blocks a to c, d with the bytes of
// a, and b dropped again.
func sampleStore(t *testing.T) string {
	t.Helper()
	dir, ctx := filepath.Join(t.TempDir(), "store"), context.Background()
	s, err := engine.Open(dir, engine.Options{CapacityBytes: 256 << 20, MaxBlockBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l := layout.Opaque("sample")
	l.Planes = []layout.Plane{{Name: "k"}, {Name: "v"}}
	n, err := s.Namespace(ctx, l, "tenant", engine.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		if err := s.Flush(ctx); err != nil { // so that d finds a
			t.Fatal(err)
		}
		content := strings.Repeat(name, 10000*(i+1))
		if name == "d" {
			content = strings.Repeat("a", 10000)
		}
		r := n.Put(ctx, []engine.PutBlock{{Hash: sampleHash(name), Planes: []engine.PlaneData{
			{Name: "k", Spans: [][]byte{[]byte(content[:5000])}}, {Name: "v", Spans: [][]byte{[]byte(content[5000:])}},
		}}}, engine.PutOptions{})[0]
		if r.Status != engine.StatusOK || r.Shared != (name == "d") {
			t.Fatalf("put %s: %+v", name, r)
		}
	}
	if r := n.Drop(ctx, [][]byte{sampleHash("b")})[0]; r.Status != engine.StatusOK {
		t.Fatalf("drop: %+v", r)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return dir
}

func sampleHash(name string) []byte {
	h := sha256.Sum256([]byte(name))
	return h[:]
}

// variable is what differs from run to run: the store's identity and place,
// what its secret keys, the clock, and what the index's engine writes.
var variable = []*regexp.Regexp{
	regexp.MustCompile(`(?m)(^store +)\S.*$`),
	regexp.MustCompile(`(?m)(^uuid +)\S+$`),
	regexp.MustCompile(`(?m)(^created +)\S.*$`),
	regexp.MustCompile(`(?m)(^header sum +)\S+$`),
	regexp.MustCompile(`(?m)(^read .* in )\S+ s$`),
	regexp.MustCompile(`(?m)(^index .*?)[0-9.]+ [KM]?i?B`),
	regexp.MustCompile(`(?m)(^on disk +)\S.*$`),
	regexp.MustCompile(`(?m)(^log +)\S.*$`),
	regexp.MustCompile(`(?m)(^position +)\S.*$`),
	regexp.MustCompile(`(?m)(^durable to +)\S.*$`),
	regexp.MustCompile(`(?m)(^applied to +)\S.*$`),
	regexp.MustCompile(`(?m)(^records .* in )\S+ groups$`),
	regexp.MustCompile(`(?m)(^wal/.* bytes, ).*$`),
	regexp.MustCompile(`(?m)(^wal/\S+: ).*$`),
	regexp.MustCompile(`(?m)(^quarantine +)\S.*$`),
	regexp.MustCompile(`(?m)(^paths +)\S.*$`),
}

func normalise(out string) string {
	for _, v := range variable {
		out = v.ReplaceAllString(out, "$1*")
	}
	return out
}

func checkWidth(t *testing.T, what, out string) {
	t.Helper()
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%s: %d columns: %q", what, n, line)
		}
	}
}

// locate finds a block by the command that users have for it.
func locate(t *testing.T, dir, name string) engine.BlockView {
	t.Helper()
	status, out, errs := run(t, "inspect", "block", dir, hex.EncodeToString(sampleHash(name)), "--json", "-")
	var r engine.BlockView
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK {
		t.Fatalf("locate %s: %d, %v, %s%s", name, status, err, out, errs)
	}
	return r
}

func flipAt(t *testing.T, path string, off int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

func TestInspect(t *testing.T) {
	dir := sampleStore(t)
	a := hex.EncodeToString(sampleHash("a"))
	for name, args := range map[string][]string{
		"store":    {"store", dir},
		"segments": {"segments", dir},
		"extent":   {"extent", dir, "0000000000000001.seg", "1"},
		"alias":    {"extent", dir, "1", "23"},
		"wal":      {"wal", dir, "--records"},
		"index":    {"index", dir},
		"layouts":  {"layouts", dir},
		"block":    {"block", dir, a, "--namespace", "1"},
	} {
		status, out, errs := run(t, append([]string{"inspect"}, args...)...)
		if status != exitOK || errs != "" {
			t.Errorf("%s: status %d, %q", name, status, errs)
		}
		checkWidth(t, name, out)
		golden(t, "inspect_"+name, normalise(out))
		status, out, _ = run(t, append([]string{"inspect", "--json", "-"}, args...)...)
		if status != exitOK || !json.Valid([]byte(out)) {
			t.Errorf("%s --json: status %d, %q", name, status, out)
		}
	}
	if _, out, _ := run(t, "inspect", "wal", dir, "--frames"); !strings.Contains(out, "group ") {
		t.Errorf("frames: %q", out)
	}
}

func TestInspectDamage(t *testing.T) {
	dir := sampleStore(t)
	a := locate(t, dir, "a")
	flipAt(t, filepath.Join(dir, a.File), a.PayloadOffset)
	for _, c := range []struct {
		args   []string
		status int
		text   string
	}{
		{[]string{"block", dir, a.Hash}, exitDamaged, "DAMAGED"},
		{[]string{"extent", dir, "1", "1"}, exitDamaged, "chunk 0"},
		{[]string{"extent", dir, "1", "2"}, exitDamaged, "no magic"},
		{[]string{"extent", dir, "9", "2"}, exitError, "there is no segment 9"},
		{[]string{"segments", dir}, exitOK, "fresh"},
		{[]string{"block", dir, hex.EncodeToString(sampleHash("b"))}, exitError, "not stored"},
		{[]string{"block", dir, a.Hash, "--namespace", "7"}, exitError, "not stored"},
		{[]string{"block", dir, "xyz"}, exitError, "not stored"},
		{[]string{"block", a.Hash, "--dir", dir}, exitDamaged, "chunk 0: plane k"},
		{[]string{"block", dir, "a", "--plain"}, exitDamaged, "-> chunk 0 has one flipped bit"},
		{[]string{"block"}, exitUsage, "want the store's directory and the block's hash or key"},
		{[]string{"extent", dir, "one", "1"}, exitUsage, "neither a segment's file nor its number"},
		{[]string{"extent", dir, "1", "-1"}, exitUsage, "flag"},
		{[]string{"store", filepath.Join(dir, "segments")}, exitError, "no store"},
		{[]string{"store", filepath.Join(dir, "nothing")}, exitError, "no such file"},
	} {
		status, out, errs := run(t, append([]string{"inspect"}, c.args...)...)
		if status != c.status || !strings.Contains(out+errs, c.text) {
			t.Errorf("%v: status %d, %q, %q; want %d and %q", c.args, status, out, errs, c.status, c.text)
		}
	}
	flipAt(t, filepath.Join(dir, a.File), 70)
	if status, out, _ := run(t, "inspect", "segments", dir); status != exitDamaged || !strings.Contains(out, "segment header") {
		t.Errorf("status %d, %q", status, out)
	}
}

func TestInspectHelp(t *testing.T) {
	all := newInspect(&environment{}).Commands()
	if len(all) != len(inspections) {
		t.Fatalf("%d commands", len(all))
	}
	for _, c := range all {
		status, out, _ := run(t, "inspect", c.Name(), "--help")
		if status != exitOK || !strings.Contains(out, "\nEXAMPLES\n  sealstone inspect "+c.Name()) || !strings.Contains(out, exitHelp) {
			t.Errorf("%s: status %d, the help lacks EXAMPLES or EXIT STATUS:\n%s", c.Name(), status, out)
		}
		checkWidth(t, c.Name(), c.Long)
		golden(t, "help_inspect_"+c.Name(), out)
		for _, name := range []string{"json", "quiet"} {
			if c.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", c.Name(), name)
			}
		}
	}
}
