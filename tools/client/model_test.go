package client

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
	"pgregory.net/rapid"
)

// caller is what both ways to a store have in common.
type caller interface {
	Put(context.Context, []engine.PutBlock, engine.PutOptions) []engine.PutResult
	Get(context.Context, []engine.GetBlock, engine.GetOptions) []engine.GetResult
	Has(context.Context, [][]byte) []engine.Status
	Touch(context.Context, [][]byte) []engine.Status
	Drop(context.Context, [][]byte) []engine.Result
}

// TestSameAsInProcess does the same things through a server and in process, on
// two stores, and holds every result of the one to that of the other.
func TestSameAsInProcess(t *testing.T) {
	drawAtMost(t, 12, 200)
	r := newRig(t, server.Options{})
	inside := testStore(t)
	unix, tcp := mustDial(t, r.unix, Options{}), mustDial(t, r.tcp, Options{Connections: 1})
	region := mustRegion(t, unix, 1<<20)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		m := &sameness{t: t, region: region.Bytes()}
		ctx, tenant := context.Background(), fmt.Sprint("run", run)
		c := rapid.SampledFrom([]*Client{unix, tcp}).Draw(t, "way")
		theirs, err := c.Namespace(ctx, testLayout(), tenant, engine.NamespaceOptions{})
		ours, err2 := inside.Namespace(ctx, testLayout(), tenant, engine.NamespaceOptions{})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if a, b := theirs.Info(), ours.Info(); a.Fingerprint != b.Fingerprint || a.Epoch != b.Epoch || a.Tenant != b.Tenant {
			t.Fatalf("%+v, in process %+v", a, b)
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				m.put(theirs, ours)
			case 2, 3:
				m.get(theirs, ours)
			case 4:
				m.ask(theirs, ours)
			case 5:
				m.match(theirs, ours)
			case 6:
				if rapid.IntRange(0, 3).Draw(t, "bump") > 0 {
					continue
				}
				newer, err := theirs.BumpEpoch(ctx)
				newer2, err2 := ours.BumpEpoch(ctx)
				if err != nil || err2 != nil || newer.Info().Epoch != newer2.Info().Epoch {
					t.Fatal(err, err2, newer, newer2)
				}
				m.ask(theirs, ours) // of the older epoch
				m.get(theirs, ours)
				theirs, ours = newer, newer2
			}
		}
	})
}

// sameness draws what is done, once for both.
type sameness struct {
	t      *rapid.T
	region []byte
}

func (m *sameness) hash() []byte {
	if rapid.IntRange(0, 19).Draw(m.t, "bad hash") == 0 {
		return make([]byte, rapid.SampledFrom([]int{0, 15, 65}).Draw(m.t, "hash bytes"))
	}
	return hashOf(rapid.IntRange(0, 7).Draw(m.t, "id"))
}

func (m *sameness) put(theirs, ours caller) {
	var a, b []engine.PutBlock
	at := 0
	for range rapid.IntRange(0, 4).Draw(m.t, "blocks") {
		x := engine.PutBlock{Hash: m.hash()}
		if rapid.Bool().Draw(m.t, "parent") {
			x.Parent = m.hash()
		}
		y := x
		var planes [][]byte
		for _, name := range rapid.SampledFrom([][]string{{"k", "v"}, {"v", "k"}, {"k"}, {"k", "z"}, {}, {"k", "v", "v"}}).Draw(m.t, "planes") {
			p := contentOf(rapid.IntRange(0, 3).Draw(m.t, "content"), rapid.SampledFrom([]int{0, 1, 100, 4096, 70_000}).Draw(m.t, "size"))
			planes = append(planes, p)
			y.Planes = append(y.Planes, engine.PlaneData{Name: name, Spans: [][]byte{p}})
			shared := p
			if rapid.Bool().Draw(m.t, "shared") {
				shared = m.region[at : at+len(p)]
				copy(shared, p)
				at += len(p)
			}
			cut := rapid.IntRange(0, len(p)).Draw(m.t, "cut")
			x.Planes = append(x.Planes, engine.PlaneData{Name: name, Spans: [][]byte{shared[:cut], shared[cut:]}})
		}
		if rapid.IntRange(0, 3).Draw(m.t, "seal") == 0 {
			seal := engine.SealOf(planes...)
			x.Seal, y.Seal = &seal, &seal
		}
		a, b = append(a, x), append(b, y)
	}
	o := engine.PutOptions{Durable: rapid.IntRange(0, 3).Draw(m.t, "durable") == 0}
	got, want := theirs.Put(context.Background(), a, o), ours.Put(context.Background(), b, o)
	for i := range want {
		g, w := got[i], want[i]
		g.Durable, w.Durable = o.Durable && g.Durable, o.Durable && w.Durable // else it is a matter of time
		if g.Err, w.Err = nil, nil; g != w {
			m.t.Fatalf("put %d: %+v (%v), in process %+v (%v)", i, got[i], got[i].Err, want[i], want[i].Err)
		}
	}
}

func (m *sameness) get(theirs, ours caller) {
	var a, b []engine.GetBlock
	at := 0
	for range rapid.IntRange(0, 4).Draw(m.t, "blocks") {
		x := engine.GetBlock{Hash: m.hash()}
		y := x
		for range rapid.IntRange(0, 3).Draw(m.t, "parts") {
			p := engine.Part{Plane: rapid.SampledFrom([]string{"k", "v", "k", "v", "z", ""}).Draw(m.t, "plane")}
			n := rapid.SampledFrom([]int{0, 1, 100, 4096, 70_000}).Draw(m.t, "room")
			if rapid.Bool().Draw(m.t, "range") {
				p.OffsetBytes = rapid.SampledFrom([]int64{0, 1, 99, 4096, -1, 1 << 40}).Draw(m.t, "offset")
				p.LengthBytes = rapid.SampledFrom([]int64{int64(n), int64(n), 1, -1}).Draw(m.t, "length")
			}
			q := p
			dst := bytes.Repeat([]byte{0xa5}, n)
			q.Spans = [][]byte{bytes.Clone(dst)}
			if rapid.Bool().Draw(m.t, "shared") {
				copy(m.region[at:], dst)
				dst = m.region[at : at+n]
				at += n
			}
			cut := rapid.IntRange(0, n).Draw(m.t, "cut")
			p.Spans = [][]byte{dst[:cut], dst[cut:]}
			x.Parts, y.Parts = append(x.Parts, p), append(y.Parts, q)
		}
		a, b = append(a, x), append(b, y)
	}
	o := engine.GetOptions{WantSeal: rapid.Bool().Draw(m.t, "seal"), WaitForDevice: rapid.Bool().Draw(m.t, "wait")}
	got, want := theirs.Get(context.Background(), a, o), ours.Get(context.Background(), b, o)
	for i := range want {
		g, w := got[i], want[i]
		if w.Status == engine.StatusStaleEpoch && g.Status != engine.StatusOK && g.Status != engine.StatusMiss {
			continue // what is wrong beside the epoch is found in another order
		}
		if g.Status != w.Status || g.Bytes != w.Bytes || (g.Err == nil) != (w.Err == nil) || fmt.Sprint(g.Seal) != fmt.Sprint(w.Seal) {
			m.t.Fatalf("get %d: %+v (%v), in process %+v (%v)", i, g, g.Err, w, w.Err)
		}
		for j := range a[i].Parts {
			p, q := bytes.Join(a[i].Parts[j].Spans, nil), b[i].Parts[j].Spans[0]
			if g.Status == engine.StatusOK && !bytes.Equal(p, q) {
				m.t.Fatalf("get %d part %d: WRONG BYTES with status OK", i, j)
			}
			for k, c := range p {
				if g.Status != engine.StatusOK && c != 0xa5 && (c != 0 || !o.WaitForDevice) {
					m.t.Fatalf("get %d part %d: %v, and byte %d is %#x", i, j, g.Status, k, c)
				}
			}
		}
	}
}

func (m *sameness) hashes() (list [][]byte) {
	for range rapid.IntRange(0, 5).Draw(m.t, "hashes") {
		list = append(list, m.hash())
	}
	return list
}

func (m *sameness) ask(theirs, ours caller) {
	list, ctx := m.hashes(), context.Background()
	var got, want []engine.Status
	switch rapid.IntRange(0, 2).Draw(m.t, "question") {
	case 0:
		got, want = theirs.Has(ctx, list), ours.Has(ctx, list)
	case 1:
		got, want = theirs.Touch(ctx, list), ours.Touch(ctx, list)
	case 2:
		list = distinct(list)
		for _, r := range theirs.Drop(ctx, list) {
			got = append(got, r.Status)
		}
		for _, r := range ours.Drop(ctx, list) {
			want = append(want, r.Status)
		}
		for i, h := range list { // what a drop says of a bad hash is its own matter
			if !goodHash(h) {
				got[i] = want[i]
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Fatalf("%v, in process %v", got, want)
	}
}

func distinct(list [][]byte) (out [][]byte) {
	seen := map[string]bool{}
	for _, h := range list {
		if !seen[string(h)] {
			seen[string(h)] = true
			out = append(out, h)
		}
	}
	return out
}

func (m *sameness) match(theirs *Namespace, ours *engine.Namespace) {
	list, ctx := m.hashes(), context.Background()
	got, err := theirs.Match(ctx, list)
	want, err2 := ours.Match(ctx, list)
	if (err == nil) != (err2 == nil) {
		m.t.Fatalf("match: %v, in process %v", err, err2)
	}
	if err != nil {
		return
	}
	if got.Blocks() != want.Blocks() {
		m.t.Fatalf("%d blocks match, in process %d", got.Blocks(), want.Blocks())
	}
	if held := got.Blocks() > 0; got.Renew(ctx) != held || held != (got.Duration() > 0) {
		m.t.Fatalf("%d blocks, and a lease of %v", got.Blocks(), got.Duration())
	}
	got.Release()
	want.Release()
	if got.Renew(ctx) {
		m.t.Fatal("a lease that was released can be renewed")
	}
}

// drawAtMost bounds the cases of rapid.Check: each opens namespaces, which are
// durable. The full run has more.
func drawAtMost(t *testing.T, usual, full int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	before := f.Value.String()
	n := usual
	if os.Getenv("SEALSTONE_FULL") != "" {
		n = full
	}
	if err := f.Value.Set(fmt.Sprint(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}
