package killloop

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/engine"
)

const (
	ok   = engine.StatusOK
	miss = engine.StatusMiss
)

func putting(v uint64) record { return record{kind: kindPutting, key: 5, version: v} }
func put(v uint64, st engine.Status, existed bool) record {
	return record{kind: kindPut, key: 5, version: v, status: st, existed: existed}
}
func dropped(st engine.Status) record { return record{kind: kindDropped, key: 5, status: st} }
func found(v uint64) record           { return record{kind: kindGot, key: 5, version: v, status: ok} }

var (
	dropping = record{kind: kindDropping, key: 5}
	nothing  = record{kind: kindGot, key: 5, status: miss}
)

// TestLedger takes the account through every history that matters, and says
// of what is then found whether a promise was broken.
func TestLedger(t *testing.T) {
	evicting, evicted := record{kind: kindEvicting}, record{kind: kindEvicted}
	bumping, bumped := record{kind: kindBumping}, record{kind: kindBumped}
	for name, c := range map[string]struct {
		history []record
		found   record
		want    Totals
	}{
		"acknowledged and found":      {[]record{putting(1), put(1, ok, false)}, found(1), Totals{Acknowledged: 1, Found: 1}},
		"acknowledged and lost":       {[]record{putting(1), put(1, ok, false)}, nothing, Totals{Acknowledged: 1, Lost: 1}},
		"another version":             {[]record{putting(1), put(1, ok, false)}, found(2), Totals{Acknowledged: 1, Wrong: 1}},
		"not acknowledged":            {[]record{putting(1)}, found(1), Totals{Unacked: 1}},
		"not acknowledged, not there": {[]record{putting(1)}, nothing, Totals{}},
		"refused, and there":          {[]record{putting(1), put(1, engine.StatusShed, false)}, found(1), Totals{Wrong: 1}},
		"unknown, and there":          {[]record{putting(1), put(1, engine.StatusIOError, false)}, found(1), Totals{Unacked: 1}},
		"the second put of a key":     {[]record{putting(1), put(1, ok, false), putting(2)}, found(2), Totals{Acknowledged: 1, Wrong: 1}},
		"existed":                     {[]record{putting(1), put(1, ok, false), putting(2), put(2, ok, true)}, found(1), Totals{Acknowledged: 1, Found: 1}},
		"did not exist any more":      {[]record{putting(1), put(1, ok, false), putting(2), put(2, ok, false)}, found(2), Totals{Acknowledged: 2, Found: 1, Lost: 1}},
		"a drop begun, found":         {[]record{putting(1), put(1, ok, false), dropping}, found(1), Totals{Acknowledged: 1, Unacked: 1}},
		"a drop begun, gone":          {[]record{putting(1), put(1, ok, false), dropping}, nothing, Totals{Acknowledged: 1}},
		"dropped":                     {[]record{putting(1), put(1, ok, false), dropping, dropped(ok)}, nothing, Totals{Acknowledged: 1, Dropped: 1}},
		"dropped, and back":           {[]record{putting(1), put(1, ok, false), dropping, dropped(ok)}, found(1), Totals{Acknowledged: 1, Dropped: 1, Resurrected: 1}},
		"nothing to drop":             {[]record{dropping, dropped(miss)}, nothing, Totals{}},
		"nothing to drop any more":    {[]record{putting(1), put(1, ok, false), dropping, dropped(miss)}, nothing, Totals{Acknowledged: 1, Lost: 1}},
		"put again, the old one back": {[]record{putting(1), put(1, ok, false), dropping, dropped(ok), putting(2), put(2, ok, false)}, found(1), Totals{Acknowledged: 2, Dropped: 1, Wrong: 1}},
		"evicted":                     {[]record{putting(1), put(1, ok, false), evicting}, nothing, Totals{Acknowledged: 1, Missing: 1}},
		"put while one is evicted":    {[]record{evicting, putting(1), put(1, ok, false)}, nothing, Totals{Acknowledged: 1, Missing: 1}},
		"put after one was evicted":   {[]record{evicting, evicted, putting(1), put(1, ok, false)}, nothing, Totals{Acknowledged: 1, Lost: 1}},
		"moved on":                    {[]record{putting(1), put(1, ok, false), evicting, evicted}, found(1), Totals{Acknowledged: 1, Found: 1}},
		"an epoch begun":              {[]record{putting(1), put(1, ok, false), bumping}, found(1), Totals{Acknowledged: 1, Unacked: 1}},
		"a new epoch":                 {[]record{putting(1), put(1, ok, false), bumping, bumped}, nothing, Totals{Acknowledged: 1}},
		"back from an old epoch":      {[]record{putting(1), put(1, ok, false), bumping, bumped}, found(1), Totals{Acknowledged: 1, Resurrected: 1}},
		"a get that fails":            {nil, record{kind: kindGot, key: 5, status: engine.StatusIOError}, Totals{Refused: 1}},
		"wrong bytes while it lived":  {[]record{{kind: kindWrong, key: 5}}, nothing, Totals{Wrong: 1}},
		"a key that there is not":     {[]record{{kind: kindPut, key: keys}}, nothing, Totals{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			for _, r := range c.history {
				l.apply(r)
			}
			before := l.totals
			problem := l.found(c.found)
			found := l.totals
			c.want.Checked = 1
			if diff := cmp.Diff(c.want, l.totals); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if again := l.found(c.found); again != "" && c.found.status != engine.StatusIOError {
				t.Errorf("what was found is not known afterwards: %s", again)
			}
			if broken := found.Defects() - before.Defects(); (problem == "") != (broken == 0) {
				t.Errorf("%d broken promises in what was found, and it says %q", broken, problem)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	var out bytes.Buffer
	want := []record{putting(7), put(7, engine.StatusShed, true), dropping, {kind: kindClosed}}
	if err := (&teller{out: &out}).tell(want...); err != nil {
		t.Fatal(err)
	}
	out.Write(make([]byte, recordBytes-1)) // a kill never leaves that; a reader must not hang on it
	for _, w := range want {
		if got, err := readRecord(&out); err != nil || got != w {
			t.Errorf("%+v %v, want %+v", got, err, w)
		}
	}
	if _, err := readRecord(&out); err != io.ErrUnexpectedEOF {
		t.Errorf("half a record: %v", err)
	}
}

// TestVersionOf flips each byte of a block: it is no version then.
func TestVersionOf(t *testing.T) {
	const key, version = 8, 3
	p := numberedBytes(key, version)
	if v, err := versionOf(key, p); err != nil || v != version {
		t.Fatalf("%d %v", v, err)
	}
	if _, err := versionOf(key+8, append(bytes.Clone(p), make([]byte, 8)...)); err == nil {
		t.Error("another key's bytes were taken")
	}
	for i := range p {
		p[i] ^= 0x10
		if _, err := versionOf(key, p); err == nil {
			t.Errorf("byte %d is wrong and was not seen", i)
		}
		p[i] ^= 0x10
	}
}
