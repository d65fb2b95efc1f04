package web

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// families are all metrics of a server that has seen something, by name.
func families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := newRegistry(newFake().options()).Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range all {
		out[f.GetName()] = f
	}
	return out
}

// documented are the rows of the table in docs/server/metrics.md: name, then
// kind and labels.
func documented(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "server", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][2]string{}
	row := regexp.MustCompile("(?m)^\\| `(sealstone_[a-z0-9_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := out[m[1]]; twice {
			t.Errorf("%s stands twice in the table", m[1])
		}
		out[m[1]] = [2]string{m[2], strings.TrimSpace(m[3])}
	}
	return out
}

func labels(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// TestEveryMetricIsDocumented, and no other: names, kinds and labels.
func TestEveryMetricIsDocumented(t *testing.T) {
	table, have := documented(t), families(t)
	for name, f := range have {
		if !strings.HasPrefix(name, "sealstone_") {
			continue // of the Go run time and the process, by their collectors
		}
		row, ok := table[name]
		if !ok {
			t.Errorf("no row: | `%s` | %s | %s | %s |", name, strings.ToLower(f.GetType().String()), labels(f), f.GetHelp())
			continue
		}
		if want := [2]string{strings.ToLower(f.GetType().String()), labels(f)}; row != want {
			t.Errorf("%s is documented as %v and is %v", name, row, want)
		}
	}
	for name := range table {
		if have[name] == nil {
			t.Errorf("%s is documented and is no metric", name)
		}
	}
}

// TestGrafanaNamesRealMetrics: every metric of the dashboard exists.
func TestGrafanaNamesRealMetrics(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "tools", "packaging", "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	have := families(t)
	names := regexp.MustCompile(`(sealstone|process|go)_[a-z0-9_]+`).FindAllString(string(text), -1)
	if len(names) < 20 {
		t.Errorf("the dashboard names %d metrics", len(names))
	}
	for _, name := range names {
		if have[name] == nil && have[strings.TrimSuffix(name, "_bucket")] == nil {
			t.Errorf("the dashboard names %s, which is no metric", name)
		}
	}
}

// TestOnlyVerifiedBytesCountAsLoaded: what was read and did not verify is in
// no figure of what was loaded.
func TestOnlyVerifiedBytesCountAsLoaded(t *testing.T) {
	have := families(t)
	f := have["sealstone_server_values_total"]
	got := map[string]float64{}
	for _, m := range f.GetMetric() {
		key := ""
		for _, l := range m.GetLabel() {
			key += l.GetValue() + " "
		}
		got[key] = m.GetCounter().GetValue()
	}
	if got["plain get attempted "] != 822_523 || got["plain get verified "] != 702_122 || got["plain get corrupt "] != 1 || got["plain put shed "] != 100 {
		t.Errorf("values are %v", got)
	}
}

// TestMetricsBeforeTheStoreIsOpen: the endpoint answers, without the store's.
func TestMetricsBeforeTheStoreIsOpen(t *testing.T) {
	f := newFake()
	f.closed, f.phase = true, PhaseOpening
	status, body := ask(t, serve(t, f.options()).URL+"/metrics")
	if status != 200 || !strings.Contains(body, `sealstone_server_phase{phase="opening"} 1`) || strings.Contains(body, "sealstone_capacity_bytes") {
		t.Errorf("%d\n%s", status, body)
	}
}
