package fio

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestParse reads reports that fio 3.33 wrote; the second has a note of fio's
// in front.
func TestParse(t *testing.T) {
	r, err := parse(recorded(t, "read.json"), RandomRead)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes != 512<<20 || math.Abs(r.MiBPerSecond()-1163.636) > 0.01 {
		t.Errorf("%d bytes, %.3f MiB/s", r.Bytes, r.MiBPerSecond())
	}
	if r.CPU <= 0 || r.CPU > 2*r.Runtime || r.CPUSecondsPerGiB() != r.CPU.Seconds()*2 {
		t.Errorf("processor time %v in %v, %.3f s/GiB", r.CPU, r.Runtime, r.CPUSecondsPerGiB())
	}
	if got := r.Latency[50]; got != 34865152*time.Nanosecond {
		t.Errorf("median latency %v", got)
	}
	if r.Latency[99] < r.Latency[90] || r.Latency[100] < r.Latency[99.9] {
		t.Errorf("latencies %v", r.Latency)
	}
	w, err := parse(recorded(t, "write.json"), SequentialWrite)
	if err != nil || w.Bytes != 16<<20 || w.Runtime <= 0 {
		t.Errorf("write: %+v, %v", w, err)
	}
	if _, err := parse(recorded(t, "write.json"), RandomRead); !errors.Is(err, ErrOutput) {
		t.Errorf("a write read as a read: %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	good := string(recorded(t, "read.json"))
	for name, out := range map[string]string{
		"nothing":      "",
		"no report":    "fio: unrecognized option\n",
		"cut":          good[:len(good)/2],
		"two jobs":     `{"jobs":[{},{}]}`,
		"no job":       `{"jobs":[]}`,
		"no direction": `{"jobs":[{"job_runtime":1}]}`,
		"no bytes":     strings.Replace(good, `"io_bytes" : 536870912`, `"io_bytes" : 0`, 1),
		"no time":      `{"jobs":[{"read":{"io_bytes":5}}]}`,
		"failed":       strings.Replace(good, `"error" : 0`, `"error" : 5`, 1),
	} {
		if r, err := parse([]byte(out), RandomRead); !errors.Is(err, ErrOutput) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// FuzzParse: whatever a program prints is a result with bytes and a time, or
// an ErrOutput.
func FuzzParse(f *testing.F) {
	f.Add(recorded(f, "read.json"))
	f.Add(recorded(f, "write.json"))
	f.Add([]byte(`{"jobs":[{"job_runtime":1e308,"usr_cpu":1e308,"read":{"io_bytes":1,"runtime":1e300,"bw_bytes":1e-300,"lat_ns":{"percentile":{"NaN":-1,"x":1}}}}]}`))
	f.Add([]byte("warning\n{\"jobs\":[{}]}"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, work := range []string{RandomRead, SequentialWrite} {
			r, err := parse(out, work)
			if err != nil {
				if !errors.Is(err, ErrOutput) {
					t.Errorf("%v", err)
				}
				continue
			}
			if r.Bytes <= 0 || r.Runtime <= 0 || r.CPU < 0 || !positive(r.MiBPerSecond()) || math.IsNaN(r.CPUSecondsPerGiB()) {
				t.Errorf("%+v", r)
			}
			for p, d := range r.Latency {
				if d < 0 {
					t.Errorf("percentile %v: %v", p, d)
				}
			}
		}
	})
}
