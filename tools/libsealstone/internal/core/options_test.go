package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/client"
)

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]byte(`{"dir":"/d","capacity_bytes":1,"path":"buffered","read_only":true,"hint_bytes":-1,
		"admission":"second-touch","lease_ms":5,"call_timeout_ms":1500,"queue_operations":7,"queue_bytes":8,"workers":9,
		"on_incompatible":"set-aside","host_cache_bytes":4096}`))
	if err != nil {
		t.Fatal(err)
	}
	e := o.engine
	if o.dir != "/d" || e.CapacityBytes != 1 || e.Path != engine.PathBuffered || !e.ReadOnly || e.HintBytes != -1 ||
		e.Admission != engine.AdmitSecondTouch || e.LeaseDuration != 5*time.Millisecond || e.CallTimeout != 1500*time.Millisecond ||
		e.OnIncompatible != engine.IncompatibleSetAside || e.HostCacheBytes != 4096 ||
		o.queueOperations != 7 || o.queueBytes != 8 || o.workers != 9 {
		t.Errorf("%+v", o)
	}
	o, err = parseOptions([]byte(` {"server":"unix:/s","token":"t","user":"u"} `))
	if err != nil || o.server != "unix:/s" || o.token != "t" || o.user != "u" || o.workers != defaultWorkers || o.callTimeout != defaultCallTimeout {
		t.Errorf("%+v %v", o, err)
	}
}

// TestParseOptionsRefuses: each fault is named.
func TestParseOptionsRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                                      "ends in the middle",
		`{`:                                     "ends in the middle",
		`{"dir":"/d"`:                           "ends in the middle",
		`{"dir":"/d"}x`:                         "goes on behind its end",
		`{"dir":"/d"}{}`:                        "goes on behind its end",
		`[]`:                                    "object wanted",
		`null`:                                  "object wanted",
		`"dir"`:                                 "object wanted",
		`{}`:                                    `either "dir" or "server"`,
		`{"dir":"","server":""}`:                `either "dir" or "server"`,
		`{"dir":"/d","server":"s"}`:             `either "dir" or "server"`,
		`{"dir":"/d","dir":"/e"}`:               `"dir" twice`,
		`{"DIR":"/d"}`:                          `unknown key "DIR"`,
		`{"dir":"/d","capacity":1}`:             `unknown key "capacity"`,
		`{"dir":1}`:                             "string is wanted",
		`{"dir":null}`:                          `"dir" is null`,
		`{"dir":"/d","token":"x"}`:              `"token" goes with "server" only`,
		`{"server":"s","path":"auto"}`:          `"path" goes with "dir" only`,
		`{"dir":"/d","capacity_bytes":1.5}`:     "whole number",
		`{"dir":"/d","capacity_bytes":"1"}`:     "whole number",
		`{"dir":"/d","capacity_bytes":-1}`:      "outside",
		`{"dir":"/d","capacity_bytes":1e30}`:    "whole number",
		`{"dir":"/d","hint_bytes":-2}`:          "outside",
		`{"dir":"/d","workers":0}`:              "outside",
		`{"dir":"/d","workers":129}`:            "outside",
		`{"dir":"/d","queue_operations":65537}`: "outside",
		`{"dir":"/d","call_timeout_ms":86400001}`:                           "outside",
		`{"dir":"/d","read_only":1}`:                                        "true or false",
		`{"dir":"/d","admission":"none"}`:                                   "none of the words",
		"{\"dir\":\"\xff\"}":                                                "not UTF-8",
		`{"dir":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "nested deeper",
		`{"dir":"` + strings.Repeat("x", JSONMax) + `"}`:                    "at most",
	} {
		if _, err := parseOptions([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", in, err, want)
		}
	}
}

func TestParseSpaceOptions(t *testing.T) {
	o, err := parseSpaceOptions([]byte(`{"require_match":true,"compression":"zstd","min_saving_share":0.5,"timeout_ms":7}`))
	if err != nil || !o.engine.RequireMatch || o.engine.Compression != engine.CompressionZstd || o.engine.MinSavingShare != 0.5 || o.timeout != 7*time.Millisecond {
		t.Errorf("%+v %v", o, err)
	}
	if o, err := parseSpaceOptions(nil); err != nil || o.engine != (engine.NamespaceOptions{}) || o.timeout != 0 {
		t.Errorf("none: %+v %v", o, err)
	}
	for in, want := range map[string]string{
		`{"require-match":true}`: "unknown key", `{"compression":"lz4"}`: "none of the words",
		`{"min_saving_share":"x"}`: "number", `{"timeout_ms":0}`: "outside", `{"timeout_ms":1,"timeout_ms":2}`: "twice",
	} {
		if _, err := parseSpaceOptions([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

func TestParseLayout(t *testing.T) {
	want := layout.Opaque("x")
	got, err := parseLayout(mustJSON(want))
	if err != nil || got.Fingerprint() != want.Fingerprint() {
		t.Errorf("%+v %v", got, err)
	}
	for in, want := range map[string]string{
		`{"modell":"x"}`: "modell", `{"model":"x","model":"y"}`: "twice", `{"model":"x"} 1`: "goes on", `{"model":3}`: "model", ``: "ends",
	} {
		if _, err := parseLayout([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// FuzzJSON: whatever a host passes for options and layouts is refused with a
// line of text, or means what encoding/json makes of it.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"dir":"/d","capacity_bytes":1}`, `{"server":"unix:/s","token":"t"}`, `{"require_match":true}`,
		string(mustJSON(layout.Opaque("x"))), `{"a":[{"b":null}]}`, `{"dir":"/d","dir":"/d"}`, "\x00", `{"dir":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		valid := json.Valid(p)
		for name, parse := range map[string]func() error{
			"options":   func() error { _, err := parseOptions(p); return err },
			"namespace": func() error { _, err := parseSpaceOptions(p); return err },
		} {
			err := parse()
			if err == nil && !valid && len(p) > 0 {
				t.Errorf("%s: %q is no JSON and was taken", name, p)
			}
			if err != nil && len(err.Error()) == 0 {
				t.Errorf("%s: %q is refused without a word", name, p)
			}
		}
		l, err := parseLayout(p)
		if err != nil {
			return
		}
		again, err := parseLayout(mustJSON(l))
		if !valid || err != nil || again.Fingerprint() != l.Fingerprint() {
			t.Errorf("%q: read as %+v, written and read as %+v, %v", p, l, again, err)
		}
	})
}

// TestCallErrors: each sentinel has its status, also deep in an error; the
// unknown is the device's.
func TestCallErrors(t *testing.T) {
	for _, s := range sentinels {
		if e := callError(errors.Join(errors.New("around it"), s.err)); e.Status != s.status || !strings.Contains(e.Text, s.err.Error()) {
			t.Errorf("%v: %+v", s.err, e)
		}
	}
	if e := callError(errors.New("other")); e.Status != IOError || e.Error() != "other" {
		t.Errorf("%+v", e)
	}
	for code, st := range refusals {
		if e := callError(fmt.Errorf("dial: %w", &client.ServerError{Code: code, Text: "why"})); e.Status != st || !strings.Contains(e.Text, "why") {
			t.Errorf("%s: %+v", code, e)
		}
	}
	if own := failf(Denied, "own"); callError(own) != own {
		t.Error("an own error changed")
	}
}
