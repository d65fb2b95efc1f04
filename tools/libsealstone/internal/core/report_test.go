package core

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/server"
)

// served puts a server before the store of a library that owns it, and gives
// the options that open it.
func (r *realLib) served() []byte {
	r.t.Helper()
	s, e := r.Lib.store(r.store)
	if e != nil {
		r.t.Fatal(e)
	}
	srv, err := server.New(s.b.(embedded).s, server.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "core") // short: the path of a socket has 107 bytes at most
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		r.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	r.t.Cleanup(func() {
		if _, err := srv.Shutdown(context.Background()); err != nil {
			r.t.Error(err)
		}
		<-done
		_ = os.RemoveAll(dir)
	})
	return mustJSON(map[string]any{"server": "unix:" + filepath.Join(dir, "s")})
}

func statsOf(t *testing.T, l *Lib, store uint64) map[string]any {
	t.Helper()
	p, e := l.Stats(store)
	if e != nil {
		t.Fatal(e)
	}
	var out map[string]any
	if err := json.Unmarshal(p, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// keysOf are the paths to all values, those of the first element for lists.
func keysOf(at string, v any) (keys []string) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			keys = append(keys, keysOf(at+"."+k, inner)...)
		}
	case []any:
		if len(v) > 0 {
			keys = keysOf(at+"[]", v[0])
		}
	default:
		keys = []string{at}
	}
	slices.Sort(keys)
	return keys
}

// TestFiguresAreTheSameInBothModes: a program that reads the figures of a store
// needs not know whose store it is. A server's own come on top.
func TestFiguresAreTheSameInBothModes(t *testing.T) {
	r := openReal(t)
	r.put(0)
	c := New()
	remote, e := c.Open(r.served())
	if e != nil {
		t.Fatal(e)
	}
	defer func() { _ = c.Close(remote, 0) }()
	here, there := statsOf(t, r.Lib, r.store), statsOf(t, c, remote)
	if here["mode"] != "embedded" || there["mode"] != "server" || here["server"] != nil || there["server"] == nil {
		t.Errorf("modes %v and %v, server %v and %v", here["mode"], there["mode"], here["server"], there["server"])
	}
	delete(there, "server")
	a, b := keysOf("", here), keysOf("", there)
	if !slices.Equal(a, b) {
		t.Errorf("embedded %v\nserver   %v", a, b)
	}
	for _, want := range []string{".store.capacity_bytes", ".store.puts_total.OK", ".host_tier.hits_total", ".paths[].name", ".tenants[].stored_bytes", ".library.submitted"} {
		if !slices.Contains(a, want) {
			t.Errorf("no %s in %v", want, a)
		}
	}
}
