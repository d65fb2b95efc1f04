package canary

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/gpu"
	"pgregory.net/rapid"
)

func TestKeptVerdict(t *testing.T) {
	refused := provenVerdict("/dir", testKey)
	refused.State, refused.Code, refused.Name, refused.Reason = gpu.VerdictRefused, 5027, "CU_FILE_HANDLE_NOT_REGISTERED", "no"
	for _, v := range []gpu.Verdict{provenVerdict("/dir", testKey), refused} {
		b, err := encodeVerdict(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeVerdict(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Errorf("-kept +read:\n%s", diff)
		}
	}
	other := bytes.Replace(mustEncode(t, refused), []byte(`"format_version":1`), []byte(`"format_version":2`), 1)
	if _, err := decodeVerdict(other); !errors.Is(err, errOtherVersion) {
		t.Errorf("another version: %v", err)
	}
}

func mustEncode(t testing.TB, v gpu.Verdict) []byte {
	t.Helper()
	b, err := encodeVerdict(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNotLasting: what would be found out otherwise the next time is not kept.
func TestNotLasting(t *testing.T) {
	for _, name := range []string{nameInterrupted, nameDied, nameAnswer, nameChanged} {
		v := gpu.Verdict{State: gpu.VerdictRefused, Name: name, Reason: "x", Tried: true}
		if lasting(v) {
			t.Errorf("%s lasts", name)
		}
		if _, err := decodeVerdict(mustEncode(t, v)); err == nil {
			t.Errorf("%s was read from a file", name)
		}
	}
	if lasting(gpu.Verdict{State: gpu.VerdictRefused, Name: nameHoles, Reason: "x"}) {
		t.Error("a refusal before the path was tried lasts")
	}
}

// TestDamagedVerdict changes any one byte of a kept verdict: it is refused, or
// the change was in none of what it says.
func TestDamagedVerdict(t *testing.T) {
	good := mustEncode(t, provenVerdict("/dir", testKey))
	want, err := decodeVerdict(good)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(good)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if v, err := decodeVerdict(b); err == nil && !reflect.DeepEqual(v, want) {
			t.Fatalf("byte %d: %+v", at, v)
		}
	})
}

// TestKeyFields changes each field of a key alone: a verdict of one key never
// holds for the other, and the difference is named.
func TestKeyFields(t *testing.T) {
	typ := reflect.TypeFor[gpu.VerdictKey]()
	for i := range typ.NumField() {
		k := testKey
		switch f := reflect.ValueOf(&k).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int:
			f.SetInt(f.Int() + 1)
		case reflect.Uint64:
			f.SetUint(f.Uint() + 1)
		default:
			t.Fatalf("field %s of kind %v", typ.Field(i).Name, f.Kind())
		}
		if k == testKey {
			t.Errorf("%s does not count", typ.Field(i).Name)
		}
		if text := differingKey(testKey, k); !strings.HasPrefix(text, typ.Field(i).Name+" is ") || strings.Count(text, ";") != 1 {
			t.Errorf("%s: %q", typ.Field(i).Name, text)
		}
	}
}

// FuzzKeptVerdict: a file proves something only if it is whole.
func FuzzKeptVerdict(f *testing.F) {
	f.Add(mustEncode(f, provenVerdict("/dir", testKey)))
	f.Add([]byte(`{"format_version":1,"sha256":"","verdict":null}`))
	f.Add([]byte(`{"format_version":1,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","verdict":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeVerdict(b)
		if err != nil {
			if v.State != gpu.VerdictUnknown {
				t.Fatalf("%v beside the error %v", v, err)
			}
			return
		}
		if err := checkVerdict(&v); err != nil || !lasting(v) {
			t.Fatalf("%+v: %v", v, err)
		}
	})
}
