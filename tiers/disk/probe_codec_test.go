package disk

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestProbeCodec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		r.Choose()
		p, err := EncodeProbe(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeProbe(p)
		if err != nil {
			t.Fatalf("%v: %s", err, p)
		}
		// Strings that are no UTF-8 come back repaired: they are for people.
		again, err := EncodeProbe(got)
		if err != nil || !bytes.Equal(p, again) {
			t.Fatalf("%v: %s, then %s", err, p, again)
		}
		if !reflect.DeepEqual(got.Path(PathPread).ReadMiBs, r.Path(PathPread).ReadMiBs) || got.Chosen != r.Chosen {
			t.Fatalf("%+v, want %+v", got, r)
		}
	})
}

func TestDecodeProbeRefuses(t *testing.T) {
	r := &ProbeReport{}
	for _, name := range PathNames() {
		r.Paths = append(r.Paths, ProbePath{Name: name, State: PathProven})
	}
	good, err := EncodeProbe(r)
	must(t, err)
	if _, err := DecodeProbe(good); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, from, to string
		want           error
	}{
		{"cut", `"report"`, "", ErrCorrupt},
		{"another version", `"format_version": 1`, `"format_version": 2`, ErrUnsupported},
		{"no version", `"format_version": 1,`, ``, ErrUnsupported},
		{"unknown path", `"uring"`, `"magic"`, ErrCorrupt},
		{"unknown state", `"proven"`, `"trusted"`, ErrCorrupt},
		{"negative speed", `"read_mib_s": 0`, `"read_mib_s": -1`, ErrCorrupt},
		{"absurd speed", `"read_mib_s": 0`, `"read_mib_s": 1e300`, ErrCorrupt},
		{"unknown choice", `"chosen": ""`, `"chosen": "magic"`, ErrCorrupt},
		{"a list without end", `"notes": null`, `"notes": [` + strings.Repeat(`"x",`, 100) + `"x"]`, ErrCorrupt},
		{"too long", `"notes": null`, `"notes": ["` + strings.Repeat("x", MaxProbeBytes) + `"]`, ErrCorrupt},
	} {
		bad := strings.Replace(string(good), tc.from, tc.to, 1)
		if bad == string(good) {
			t.Fatalf("%s: nothing changed", tc.name)
		}
		if got, err := DecodeProbe([]byte(bad)); !errors.Is(err, tc.want) || got != nil {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	for _, bad := range []string{"", "{}", "null", "[]", `{"format_version":1}`, `{"format_version":1,"report":{}}`, strings.Repeat("[", 1<<15)} {
		if got, err := DecodeProbe([]byte(bad)); err == nil || got != nil {
			t.Errorf("%.40q decodes", bad)
		}
	}
	r.Notes = []string{strings.Repeat("x", MaxProbeBytes)}
	if _, err := EncodeProbe(r); !errors.Is(err, ErrInvalid) {
		t.Errorf("a report that is too long: %v", err)
	}
}

// FuzzDecodeProbe: whatever the file holds, there is a report that a probe
// could have made, or an error.
func FuzzDecodeProbe(f *testing.F) {
	r := &ProbeReport{Chosen: PathPread}
	for _, name := range PathNames() {
		r.Paths = append(r.Paths, ProbePath{Name: name, State: PathProven, ReadMiBs: 1234.5})
	}
	good, err := EncodeProbe(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"format_version":1,"report":{"paths":[{"name":"uring"}]}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := DecodeProbe(p)
		if err != nil {
			if r != nil || !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
				t.Errorf("%v, %v", r, err)
			}
			return
		}
		if err := r.check(); err != nil {
			t.Error(err)
		}
		r.Choose()
		if r.Chosen != "" && !r.Proven(r.Chosen) {
			t.Errorf("chosen %s", r.Chosen)
		}
		_ = r.Summary()
		if again, err := EncodeProbe(r); err == nil {
			if _, err := DecodeProbe(again); err != nil {
				t.Errorf("its own encoding does not decode: %v", err)
			}
		}
	})
}
