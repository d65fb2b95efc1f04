package web

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/access"
)

// ask gets a path and gives status and body.
func ask(t *testing.T, url string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(r)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(body)
}

func TestHealthEndpoints(t *testing.T) {
	const ok, bad = http.StatusOK, http.StatusServiceUnavailable
	for _, c := range []struct {
		name                 string
		change               func(*fake)
		live, ready, healthy int
		why                  string // in the answer of healthz
	}{
		{"all is well", func(*fake) {}, ok, ok, ok, "ok"},
		{"opening", func(f *fake) { f.phase, f.detail, f.closed = PhaseOpening, "3 of 9 bytes", true }, ok, bad, bad, "opening: 3 of 9 bytes"},
		{"read-only", func(f *fake) {
			f.health = engine.Health{State: engine.HealthReadOnly, Reasons: []string{"a sync failed"}}
		}, ok, ok, bad, "read-only: a sync failed"},
		{"all-miss", func(f *fake) {
			f.health = engine.Health{State: engine.HealthAllMiss, Reasons: []string{"the index is wedged", "a disk"}}
		}, ok, bad, bad, "all-miss: the index is wedged; a disk"},
		{"closed", func(f *fake) { f.health = engine.Health{State: engine.HealthClosed} }, ok, bad, bad, "closed"},
		{"stopping", func(f *fake) { f.phase = PhaseStopping }, ok, bad, bad, "stopping"},
		{"wedged", func(f *fake) { f.alive = false }, bad, ok, bad, "wedged: the store gives no answer"},
	} {
		f := newFake()
		c.change(f)
		s := serve(t, f.options())
		live, _ := ask(t, s.URL+"/livez")
		ready, _ := ask(t, s.URL+"/readyz")
		healthy, why := ask(t, s.URL+"/healthz")
		if live != c.live || ready != c.ready || healthy != c.healthy || why != c.why+"\n" {
			t.Errorf("%s: livez %d, readyz %d, healthz %d %q; want %d, %d, %d %q", c.name, live, ready, healthy, why, c.live, c.ready, c.healthy, c.why)
		}
	}
}

func TestTokens(t *testing.T) {
	secrets := map[string]string{}
	text := ""
	for name, id := range map[string]access.Identity{
		"reader": {Tenant: "a", Read: true}, "writer": {Tenant: "a", Write: true}, "admin": {Tenant: "a", Admin: true},
	} {
		id.Name = name
		secret, entry, err := access.New(id)
		if err != nil {
			t.Fatal(err)
		}
		secrets[name], text = secret, text+entry
	}
	file := filepath.Join(t.TempDir(), "tokens.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := access.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	o := newFake().options()
	o.Tokens, o.PProf = table, true
	closed := serve(t, o)
	o.OpenMetrics = true
	open := serve(t, o)
	bearer := func(name string) func(*http.Request) {
		return func(r *http.Request) {
			if name != "" {
				r.Header.Set("Authorization", "Bearer "+secrets[name]+map[bool]string{true: "", false: "wrong"}[secrets[name] != ""])
			}
		}
	}
	basic := func(r *http.Request) { r.SetBasicAuth("reader", secrets["reader"]) }
	for _, c := range []struct {
		path string
		as   func(*http.Request)
		want int
	}{
		{"/status", bearer(""), 401}, {"/status", bearer("nobody"), 401}, {"/status", bearer("writer"), 403},
		{"/status", bearer("reader"), 200}, {"/status", bearer("admin"), 200}, {"/status", basic, 200},
		{"/metrics", bearer(""), 401}, {"/metrics", bearer("reader"), 200}, {"/metrics", basic, 200},
		{"/debug/pprof/cmdline", bearer("reader"), 403}, {"/debug/pprof/", bearer(""), 401}, {"/debug/pprof/", bearer("admin"), 200},
		{"/livez", bearer(""), 200}, {"/readyz", bearer(""), 200}, {"/healthz", bearer(""), 200}, {"/", bearer(""), 200}, {"/page.js", bearer(""), 200},
	} {
		if got, body := ask(t, closed.URL+c.path, c.as); got != c.want {
			t.Errorf("%s is answered with %d, want %d: %.100s", c.path, got, c.want, body)
		}
	}
	if got, _ := ask(t, open.URL+"/metrics"); got != 200 {
		t.Errorf("open metrics are answered with %d", got)
	}
	if got, _ := ask(t, open.URL+"/status"); got != 401 {
		t.Errorf("where metrics are open, status is answered with %d", got)
	}
}

func TestForeignHostIsRefused(t *testing.T) {
	s := serve(t, newFake().options())
	for host, want := range map[string]int{
		"localhost:6381": 200, "LOCALHOST": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:6381": 200, "localhost.": 200,
		"evil.example": 421, "evil.example:6381": 421, "127.0.0.1.evil.example": 421, "10.0.0.1": 421, "0.0.0.0": 421, "localhost.evil.example": 421,
	} {
		for _, path := range []string{"/status", "/", "/metrics", "/livez"} {
			if got, _ := ask(t, s.URL+path, func(r *http.Request) { r.Host = host }); got != want {
				t.Errorf("%s for host %s is answered with %d, want %d", path, host, got, want)
			}
		}
	}
}

func TestHeaders(t *testing.T) {
	s := serve(t, newFake().options())
	for _, path := range []string{"/", "/page.css", "/page.js", "/status", "/metrics", "/livez", "/nothing"} {
		got, err := http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		policy := got.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s has the headers %v", path, got.Header)
		}
	}
}

func TestOnlyReading(t *testing.T) {
	s := serve(t, newFake().options())
	for _, path := range []string{"/", "/status", "/metrics", "/livez"} {
		got, err := http.Post(s.URL+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s is answered with %d", path, got.StatusCode)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/assets/page.html", "/../etc/passwd"} {
		if got, _ := ask(t, s.URL+path); got != http.StatusNotFound {
			t.Errorf("%s is answered with %d", path, got)
		}
	}
}

// TestStatusBeforeTheStoreIsOpen: no field is null, so that readers of the
// document need not ask.
func TestStatusBeforeTheStoreIsOpen(t *testing.T) {
	f := newFake()
	for _, closed := range []bool{true, false} {
		f.change(func() { f.closed, f.gpus = closed, GPUs{State: "off"} })
		_, body := ask(t, serve(t, f.options()).URL+"/status")
		if strings.Contains(body, "null") {
			t.Errorf("a field is null in\n%s", body)
		}
		var got Status
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&got); err != nil || got.Schema != SchemaVersion || got.Store.Dir != "/var/lib/sealstone" {
			t.Errorf("%v, schema %d, dir %q", err, got.Schema, got.Store.Dir)
		}
		if got.Paths == nil || got.Tenants == nil || got.Events == nil || got.GPUs.Pairs == nil || got.Health.Reasons == nil {
			t.Errorf("a list is null in\n%s", body)
		}
	}
}

// TestEveryEventHasItsAdvice: a kind that is new has to be thought about.
func TestEveryEventHasItsAdvice(t *testing.T) {
	n := 0
	for kind := engine.EventOpened; !strings.HasPrefix(kind.String(), "event "); kind++ {
		n++
		if _, ok := advice[kind]; !ok {
			t.Errorf("no advice, not even that there is none, about %s", kind)
		}
	}
	if n != len(advice) || n < 27 {
		t.Errorf("%d kinds of events and %d advices", n, len(advice))
	}
}
