package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"pgregory.net/rapid"
)

// allKeys pages through the namespace.
func allKeys(t testing.TB, n *Namespace, limit int) (out []KeyEntry, pages int) {
	t.Helper()
	var after []byte
	for {
		keys, next, err := n.Keys(context.Background(), after, limit)
		if err != nil {
			t.Fatalf("keys: %v", err)
		}
		if len(keys) > limit {
			t.Fatalf("%d keys on a page of %d", len(keys), limit)
		}
		out, pages = append(out, keys...), pages+1
		if next == nil {
			return out, pages
		}
		if bytes.Equal(next, after) {
			t.Fatal("the next page is this one")
		}
		after = next
	}
}

// keysModel is what Keys should list: by hash, the plain key and the size.
type keysModel map[string]KeyEntry

func (m keysModel) put(b PutBlock, size int) {
	m[string(b.Hash)] = KeyEntry{Hash: b.Hash, PlainKey: b.PlainKey, SizeBytes: int64(size)}
}

func (m keysModel) compare(t testing.TB, got []KeyEntry) {
	t.Helper()
	seen := map[string]bool{}
	for _, e := range got {
		want, ok := m[string(e.Hash)]
		if !ok || seen[string(e.Hash)] {
			t.Fatalf("listed %x, which is not stored, or twice", e.Hash)
		}
		seen[string(e.Hash)] = true
		if !bytes.Equal(e.PlainKey, want.PlainKey) || e.SizeBytes != want.SizeBytes {
			t.Fatalf("%x: key %q of %d bytes, want %q of %d", e.Hash, e.PlainKey, e.SizeBytes, want.PlainKey, want.SizeBytes)
		}
	}
	if len(seen) != len(m) {
		t.Fatalf("%d blocks listed of %d", len(seen), len(m))
	}
}

// TestKeysModel puts, drops, applies, evicts and bumps epochs at random, in
// two namespaces, and lists by pages of any size: what is applied and what is
// not, with and without plain keys, shared and not.
func TestKeysModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := mustOpen(t, testOptions(vfs.NewMem()))
		defer mustClose(t, s)
		other, err := s.Namespace(context.Background(), oneLayout(), "other", NamespaceOptions{})
		if err != nil {
			rt.Fatal(err)
		}
		mustPut(t, other, PutBlock{Hash: hashOf(5000), Planes: []PlaneData{{Spans: [][]byte{{1}}}}})
		n := mustSpace(t, s)
		m := keysModel{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			id := rapid.IntRange(0, 30).Draw(rt, "id")
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				mustFlush(t, s)
			case 1:
				b := keyed(id, PutBlock{})
				n.Drop(context.Background(), [][]byte{b.Hash, hashOf(id)})
				delete(m, string(b.Hash))
				delete(m, string(hashOf(id)))
			case 2:
				if rapid.IntRange(0, 4).Draw(rt, "bump") == 0 {
					if n, err = n.BumpEpoch(context.Background()); err != nil {
						rt.Fatal(err)
					}
					clear(m)
				}
			case 3:
				m.compare(t, first(allKeys(t, n, rapid.IntRange(1, 40).Draw(rt, "limit"))))
			default:
				content := rapid.IntRange(0, 30).Draw(rt, "content")
				b := blockOf(content, 0, 3000+100*content)
				b.Hash = hashOf(id)
				if rapid.Bool().Draw(rt, "keyed") {
					b = keyed(id, b)
				}
				if r := mustPut(t, n, b); !r.Existed {
					m.put(b, 3000+100*content)
				}
			}
		}
		for _, limit := range []int{1, 7, KeysMax} {
			m.compare(t, first(allKeys(t, n, limit)))
		}
		if got, _ := allKeys(t, other, 3); len(got) != 1 || !bytes.Equal(got[0].Hash, hashOf(5000)) {
			rt.Fatalf("of the other namespace %d are listed", len(got))
		}
		wantNoBuffers(t, s)
	})
}

func first[A, B any](a A, _ B) A { return a }

// TestKeysRefused: arguments, handles and contexts that give no page.
func TestKeysRefused(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(1, 0, 3000))
	ctx := context.Background()
	for _, c := range []struct {
		after []byte
		limit int
	}{{nil, 0}, {nil, -1}, {nil, KeysMax + 1}, {[]byte("short"), 10}, {[]byte{}, 10}, {make([]byte, 65), 10}} {
		if _, _, err := n.Keys(ctx, c.after, c.limit); !errors.Is(err, ErrInvalid) {
			t.Errorf("after %x, limit %d: %v", c.after, c.limit, err)
		}
	}
	// A hash that is not stored is a place in the order all the same.
	if _, _, err := n.Keys(ctx, hashOf(999), 10); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if keys, next, err := n.Keys(gone, nil, 10); err == nil && len(keys) != 1 || err != nil && (!errors.Is(err, context.Canceled) || keys != nil || next != nil) {
		t.Errorf("context ended: %d keys, %v", len(keys), err)
	}
	newer, err := n.BumpEpoch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Keys(ctx, nil, 10); !errors.Is(err, ErrEpoch) {
		t.Errorf("older epoch: %v", err)
	}
	if keys, _, err := newer.Keys(ctx, nil, 10); len(keys) != 0 || err != nil {
		t.Errorf("of an older epoch: %d keys, %v", len(keys), err)
	}
	mustClose(t, s)
	if _, _, err := newer.Keys(ctx, nil, 10); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestKeysStalledDevice: a page that hangs in the device ends with its context.
func TestKeysStalledDevice(t *testing.T) {
	checkLeaks(t)
	stall := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
	s := mustOpen(t, testOptions(stall))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, keyed(1, blockOf(1, 0, 3000)))
	stall.stall(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if keys, next, err := n.Keys(ctx, nil, 10); !errors.Is(err, context.DeadlineExceeded) || keys != nil || next != nil {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	st := n.Stat(ctx, [][]byte{KeyHash(plainKey(1))})[0]
	if st.Status != StatusTimeout || st.PlaneBytes != nil {
		t.Errorf("stat: %+v", st)
	}
	stall.release()
	wantNoBuffers(t, s)
	wantKeyed(t, n, 1, nil)
}

// TestKeysNoFiles: a block whose header can not be read as no file more may be
// opened is listed without its plain key, and with it when files are free.
func TestKeysNoFiles(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxOpenFiles = 16
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	m := keysModel{}
	for id := 0; len(s.vol.Segments()) < 14; id++ {
		b := keyed(id, blockOf(id, 0, raceSize))
		mustPut(t, n, b)
		m.put(b, raceSize)
		mustFlush(t, s)
	}
	release := holdFiles(t, s)
	got, _ := allKeys(t, n, 100)
	release()
	without := 0
	for i := range got {
		if got[i].PlainKey == nil {
			without++
			got[i].PlainKey = m[string(got[i].Hash)].PlainKey
		}
	}
	if without == 0 {
		t.Error("every header was read: the test tests nothing")
	}
	m.compare(t, got)
	m.compare(t, first(allKeys(t, n, 100)))
}

// TestFaultKeysDamagedHeader: a header that does not verify costs its plain
// key and no page, and the block is what it is to a get: corrupt. A damaged
// page of an alias costs the key alone.
func TestFaultKeysDamagedHeader(t *testing.T) {
	var flip flipReads
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(vfs.WithReadFilter(mem, flip.filter)))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	ids := putAliases(t, s, n, hashOf(1000))
	m := keysModel{}
	for _, id := range ids {
		m.put(keyed(id, PutBlock{}), 20000)
	}
	all, _ := allKeys(t, n, 2)
	m.compare(t, all)

	alias := keyed(2, PutBlock{}).Hash
	e := entryOfKey(t, s, n.mustKeysOf(t, alias)[0])
	flip.aim(disk.SegmentName(e.Own.Address.Segment), e.Own.Address.Offset()+140)
	e2 := m[string(alias)]
	e2.PlainKey = nil
	m[string(alias)] = e2
	all, _ = allKeys(t, n, 2)
	m.compare(t, all)
	st := statOne(n, alias)
	if st.Status != StatusOK || st.PlainKey != nil || st.Parent != nil || !slices.Equal(st.PlaneBytes, []int64{6666, 13334}) {
		t.Errorf("alias with a damaged page: %+v", st)
	}
	if got := s.Stats().Quarantined; got != 0 || !flip.struck.Swap(false) {
		t.Errorf("%d blocks quarantined", got)
	}

	own := keyed(0, PutBlock{}).Hash
	e = entryOfKey(t, s, n.mustKeysOf(t, own)[0])
	flip.aim(disk.SegmentName(e.Address.Segment), e.Address.Offset()+140)
	keys, _, err := n.Keys(context.Background(), nil, KeysMax)
	if err != nil || len(keys) != 4 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		if bytes.Equal(k.Hash, own) && k.PlainKey != nil {
			t.Error("a plain key from a header that did not verify")
		}
	}
	if st := statOne(n, own); st.Status != StatusCorrupt || st.PlaneBytes != nil {
		t.Errorf("stat of a damaged header: %+v", st)
	}
	if got := s.Stats().Quarantined; got != 1 || !flip.struck.Load() {
		t.Errorf("%d blocks quarantined", got)
	}
}

// TestKeysDuring: what is stored from the first page to the last is listed
// once, while others are put, dropped, applied and moved.
func TestKeysDuring(t *testing.T) {
	checkLeaks(t)
	s := mustOpen(t, liveOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	m := keysModel{}
	for id := range 60 {
		b := keyed(id, blockOf(id, 0, 3000))
		mustPut(t, n, b)
		m.put(b, 3000)
	}
	stop := make(chan struct{})
	others := start(t, "the others", func() error {
		for id := 1000; ; id++ {
			select {
			case <-stop:
				return nil
			default:
			}
			b := keyed(id, blockOf(id, 0, 3000))
			if r := putOne(n, b); r.Status != StatusOK && r.Status != StatusShed {
				return fmt.Errorf("put: %v %w", r.Status, r.Err)
			}
			n.Drop(context.Background(), [][]byte{b.Hash})
		}
	})
	for _, limit := range []int{1, 5, 17, 60, 1000} {
		got, _ := allKeys(t, n, limit)
		stable := keysModel{}
		maps.Copy(stable, m)
		var kept []KeyEntry
		for _, e := range got {
			if _, ok := stable[string(e.Hash)]; ok {
				kept = append(kept, e)
			}
		}
		stable.compare(t, kept)
	}
	close(stop)
	if err := others(); err != nil {
		t.Fatal(err)
	}
}
