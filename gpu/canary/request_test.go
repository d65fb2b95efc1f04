package canary

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func goodRequest() request {
	return request{
		Protocol: protocol, Nonce: "n", GPU: testGPU, Dir: "/dir", Scratch: "sealstone-canary-0123456789abcdef.tmp",
		LogDir: "/log", IOBytesMax: MinIOBytesMax, TimeoutMs: 1000,
	}
}

func encodeRequest(t testing.TB, r request) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

func TestReadRequest(t *testing.T) {
	change := func(f func(*request)) string {
		r := goodRequest()
		f(&r)
		return encodeRequest(t, r)
	}
	in := strings.NewReader(encodeRequest(t, goodRequest()) + "rest")
	if r, err := readRequest(in); err != nil || r != goodRequest() {
		t.Errorf("%+v (%v)", r, err)
	}
	if rest, _ := io.ReadAll(in); string(rest) != "rest" {
		t.Errorf("%q is left", rest)
	}
	for text, said := range map[string]string{
		"unexpected EOF":      "{}",
		"more than":           strings.Repeat(" ", requestBytesMax+2),
		"invalid character":   "x\n",
		"of protocol 2":       change(func(r *request) { r.Protocol = 2 }),
		"is not absolute":     change(func(r *request) { r.Dir = "dir" }),
		"scratch name":        change(func(r *request) { r.Scratch = "../sealstone-canary-0123456789abcdef.tmp" }),
		"scratch name \"\"":   change(func(r *request) { r.Scratch = "" }),
		"without a GPU":       change(func(r *request) { r.GPU = "" }),
		"or a nonce":          change(func(r *request) { r.Nonce = "" }),
		"timeout of 0 ms":     change(func(r *request) { r.TimeoutMs = 0 }),
		"timeout of 3600001":  change(func(r *request) { r.TimeoutMs = 3600001 }),
		"IOBytesMax is 65536": change(func(r *request) { r.IOBytesMax = 65536 }),
	} {
		if r, err := readRequest(strings.NewReader(said)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v, error %v, want %q", r, err, text)
		}
	}
	if _, err := readRequest(brokenReader{}); !errors.Is(err, errBroken) {
		t.Errorf("error %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// FuzzRequest: what a child takes for a request stays within its bounds.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(encodeRequest(f, goodRequest())))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readRequest(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		if r.Protocol != protocol || !IsScratch(r.Scratch) || strings.ContainsAny(r.Scratch, "/\\") || r.IOBytesMax > MaxIOBytesMax {
			t.Fatalf("%+v", r)
		}
	})
}
