package server

import (
	"context"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/access"
)

// wantGone: the keys answer as if they were not stored.
func (p *peer) wantGone(keys ...string) {
	p.t.Helper()
	for _, k := range keys {
		p.want(nil, "GET", k)
		p.want([]any{nil, nil}, "MGET", k, k)
		p.want(int64(0), "EXISTS", k)
		p.want(int64(0), "STRLEN", k)
		p.want(int64(-2), "TTL", k)
		p.want(status("none"), "TYPE", k)
		p.want(int64(0), "DEL", k)
		p.want(nil, "SET", k, "x", "XX")
	}
}

// byHand keeps a server from removing what is hidden by itself.
func (r *rig) byHand() {
	r.s.hidden.mu.Lock()
	defer r.s.hidden.mu.Unlock()
	r.s.hidden.runs = true
}

func (r *rig) removeHidden() { r.s.removeHiddenOnce(r.t.Context(), hang) }

func hideKeys(r *rig, keys ...string) {
	for _, k := range keys {
		r.s.hide(access.DefaultTenant, engine.KeyHash([]byte(k)))
	}
}

// TestHiddenOnReadOnlyStore: a set is OK and shed, and what it was to replace
// can not be removed: nobody reads it, and the rest stays as it is.
func TestHiddenOnReadOnlyStore(t *testing.T) {
	for name, replace := range map[string][]string{
		"too long": {"SET", "k", string(make([]byte, 5<<20))}, "shed": {"SET", "k", "new"}, "of many": {"MSET", "fresh", "v", "k", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			p := r.dial()
			p.want(ok, "MSET", "k", "old", "m", "stays")
			r.eo.ReadOnly = true
			r.reopen()
			p = r.dial()
			p.want("old", "GET", "k")
			p.want(ok, replace...)
			p.wantGone("k")
			p.want("stays", "GET", "m")
			p.want([]any{"0", []any{"m"}}, "SCAN", "0")
			if st := r.s.Stats(); st.HiddenKeys != 1 || st.HiddenTotal != 1 || st.BlindTenants != 0 {
				t.Errorf("%d hidden, %d in all, %d blind", st.HiddenKeys, st.HiddenTotal, st.BlindTenants)
			}
			p.want(ok, "SET", "k", "newer")
			p.want(ok, "SET", "never stored", "v")
			if st := r.s.Stats(); st.HiddenTotal != 1 {
				t.Errorf("%d hidden, of which one is stored", st.HiddenTotal)
			}
		})
	}
}

// TestHiddenIsRemoved once the store takes it; before, a set puts another value
// in its place, also one that asks that there be none.
func TestHiddenIsRemoved(t *testing.T) {
	r := newRig(t, Options{})
	r.byHand()
	p := r.dial()
	p.want(ok, "MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5")
	hideKeys(r, "a", "b", "c", "d")
	p.wantGone("a", "b", "c", "d")
	p.want("5", "GET", "e")
	p.want(ok, "SET", "b", "other")
	p.want("other", "GET", "b")
	p.want(ok, "SET", "c", "3") // what is stored, by chance
	p.want("3", "GET", "c")
	p.want(ok, "SET", "d", "other", "NX")
	p.want("other", "GET", "d")
	p.want(nil, "SET", "d", "again", "NX")
	r.removeHidden()
	if st := r.s.Stats(); st.HiddenKeys != 0 {
		t.Errorf("%d are left", st.HiddenKeys)
	}
	p.wantGone("a")
	p.want([]any{"other", "3", "other", "5"}, "MGET", "b", "c", "d", "e")
	r.reopen()
	r.dial().want([]any{nil, "other", "3", "other", "5"}, "MGET", "a", "b", "c", "d", "e")
}

// TestHiddenRemovesItself, without anybody's doing.
func TestHiddenRemovesItself(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	for range 3 {
		p.want(ok, "MSET", "a", "1", "b", "2")
		hideKeys(r, "a", "b", "never stored")
		p.wantGone("a", "b")
		r.eventually(func() bool { return r.s.Stats().HiddenKeys == 0 })
		p.wantGone("a", "b")
	}
}

// TestHiddenPastTheBound: all keys of the tenant are misses, and stay so; those
// of another tenant are not concerned. Afterwards keys are kept again.
func TestHiddenPastTheBound(t *testing.T) {
	r := newRig(t, Options{HiddenKeysMax: 3})
	r.byHand()
	p := r.dial()
	var keys []string
	for i := range 6 {
		keys = append(keys, fmt.Sprint("k", i))
		p.want(ok, "SET", keys[i], "v")
	}
	hash := engine.KeyHash([]byte("k"))
	r.s.hide("another", hash)
	hideKeys(r, keys[:2]...)
	p.want("v", "GET", keys[3])
	hideKeys(r, keys[2])
	p.wantGone(keys...)
	p.want([]any{"0", []any{}}, "SCAN", "0")
	if st := r.s.Stats(); st.BlindTenants != 1 || st.BlindTotal != 1 || st.HiddenKeys != 1 {
		t.Errorf("%d blind, %d hidden", st.BlindTenants, st.HiddenKeys)
	}
	p.want(ok, "SET", "k0", "w")
	p.wantGone("k0")
	r.removeHidden()
	if st := r.s.Stats(); st.BlindTenants != 0 || st.HiddenKeys != 0 {
		t.Errorf("%d blind, %d hidden afterwards", st.BlindTenants, st.HiddenKeys)
	}
	p.wantGone(keys...)
	p.want(ok, "SET", "k0", "x")
	p.want("x", "GET", "k0")
	r.reopen()
	r.dial().want([]any{"x", nil, nil}, "MGET", "k0", "k1", "k3")
}

// TestHiddenBesideSets: sets, sheds and the removal at the same time leave
// nothing of a key that was shed last, and all of one that was set last.
func TestHiddenBesideSets(t *testing.T) {
	r := newRig(t, Options{ValueBytesMax: 2 << 20})
	done := make(chan struct{})
	for w := range 4 {
		p, key := r.dial(), fmt.Sprint("k", w)
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 40 {
				value := fmt.Sprint("v", i)
				p.do("SET", key, value)
				if got := p.do("GET", key); got != value {
					t.Errorf("%s is %v after SET %s", key, got, value)
				}
				hideKeys(r, key)
				if got := p.do("GET", key); got != nil {
					t.Errorf("%s is %v after it was hidden", key, got)
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	r.eventually(func() bool { return r.s.Stats().HiddenKeys == 0 })
}

// TestHiddenAtShutdown: a server that stops tries once more.
func TestHiddenAtShutdown(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	p.want(ok, "SET", "a", "1")
	stripe := r.s.overwrites.of(access.DefaultTenant, engine.KeyHash([]byte("a")))
	stripe.Lock() // the removal waits
	hideKeys(r, "a")
	p.c.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := r.s.Shutdown(context.Background())
		ended <- err
	}()
	<-r.s.hidden.life.Done()
	stripe.Unlock()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	<-r.done
	if st := r.s.Stats(); st.HiddenKeys != 0 {
		t.Errorf("%d are left", st.HiddenKeys)
	}
	if err := r.store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.dial().want(nil, "GET", "a")
}
