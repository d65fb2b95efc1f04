package server

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

const kBytes, vBytes = 100_000, 70_000

// testLayout is the JSON of a layout with two planes of fixed sizes.
func testLayout(t *testing.T, dtype string) string {
	t.Helper()
	l := layout.Opaque("model")
	l.DType = dtype
	l.Planes = []layout.Plane{{Name: "k", SizeBytes: kBytes}, {Name: "v", SizeBytes: vBytes}}
	p, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func hashOf(i int) string { return fmt.Sprintf("%032d", i) }

// open gives a handle as commands name it.
func (p *peer) open(args ...string) string {
	p.t.Helper()
	a, _ := p.do(append([]string{"KV.OPEN"}, args...)...).([]any)
	if len(a) != 7 || a[0] != "ok" {
		p.t.Fatalf("KV.OPEN: %#v", a)
	}
	return fmt.Sprint(a[1])
}

func planesOf(i int) (k, v string) {
	return string(randomBytes(uint64(2*i), kBytes)), string(randomBytes(uint64(2*i+1), vBytes))
}

// block is what KV.PUT is told of a block.
func block(i int, parent string) []string {
	k, v := planesOf(i)
	return []string{hashOf(i), parent, "", "2", "k", "B", k, "v", "B", v}
}

func (p *peer) put(handle string, blocks ...int) []any {
	p.t.Helper()
	args := []string{"KV.PUT", handle, "", strconv.Itoa(len(blocks))}
	parent := ""
	for _, i := range blocks {
		args = append(args, block(i, parent)...)
		parent = hashOf(i)
	}
	a, isArray := p.do(args...).([]any)
	if !isArray || len(a) != len(blocks) {
		p.t.Fatalf("KV.PUT: %#v", a)
	}
	return a
}

func statusOf(answer any) any { return answer.([]any)[0] }

func TestKVOpen(t *testing.T) {
	p := newRig(t, Options{}).dial()
	a := p.do("KV.OPEN", testLayout(t, "fp16")).([]any)
	if a[0] != "ok" || a[1] != int64(1) || len(a[2].(string)) != 32 || a[4] != "default" || len(a[5].([]any)) != 0 {
		t.Fatalf("KV.OPEN: %#v", a)
	}
	if again := p.do("KV.OPEN", testLayout(t, "fp16")).([]any); fmt.Sprint(again) != fmt.Sprint(a) {
		t.Errorf("opened again: %#v", again)
	}
	mismatch := p.do("KV.OPEN", testLayout(t, "bf16"), "REQUIREMATCH").([]any)
	if want := []any{"layout-mismatch", []any{[]any{"dtype", `"fp16"`, `"bf16"`}}}; fmt.Sprint(mismatch) != fmt.Sprint(want) {
		t.Errorf("another layout: %#v", mismatch)
	}
	near := p.do("KV.OPEN", testLayout(t, "bf16"), "compression", "zstd").([]any)
	if near[0] != "ok" || near[1] != int64(2) || fmt.Sprint(near[5]) != `[[dtype "fp16" "bf16"]]` {
		t.Errorf("a near layout: %#v", near)
	}
	if other := p.open(testLayout(t, "bf16")); other != "3" {
		t.Errorf("another compression is handle %s", other)
	}
	for _, args := range [][]string{
		{"{"}, {`{"model":1}`}, {`{"modle":"x"}`}, {`{}`}, {testLayout(t, "x"), "TENANT"}, {testLayout(t, "x"), "COMPRESSION", "lz4"}, {testLayout(t, "x"), "WHAT"},
	} {
		p.fails("ERR", append([]string{"KV.OPEN"}, args...)...)
	}
	p.fails("LIMIT layout", "KV.OPEN", strings.Repeat(" ", layoutJSONMax+1))
}

func TestKVPutGet(t *testing.T) {
	p := newRig(t, Options{}).dial()
	h := p.open(testLayout(t, "fp16"))
	for i, a := range p.put(h, 1, 2, 3) {
		if r := a.([]any); r[0] != "OK" || r[1] != "" || r[2] != "" || r[3].(int64) < kBytes+vBytes {
			t.Fatalf("put %d: %#v", i, r)
		}
	}
	if r := p.put(h, 1)[0].([]any); r[0] != "OK" || !strings.HasPrefix(r[2].(string), "existed") || r[3] != int64(0) {
		t.Fatalf("put again: %#v", r)
	}
	k, v := planesOf(2)
	whole := p.do("KV.GET", h, "", "3", hashOf(9), "0", hashOf(2), "0", hashOf(1), "0").([]any)
	if statusOf(whole[0]) != "Miss" || statusOf(whole[1]) != "OK" || statusOf(whole[2]) != "OK" {
		t.Fatalf("KV.GET: %.300v", whole)
	}
	if r := whole[1].([]any); r[2] != int64(kBytes+vBytes) || r[3] != int64(kBytes+vBytes) || r[4] != "" || fmt.Sprint(r[5]) != fmt.Sprint([]any{k, v}) {
		t.Errorf("whole block: %v %v %v", r[2], r[3], r[4])
	}
	parts := p.do("KV.GET", h, "", "2",
		hashOf(2), "3", "v", "10", "5", "B", "", "k", "99990", "0", "B", "", "v", "0", "0", "B", "",
		hashOf(3), "1", "k", "0", "1", "B", "").([]any)
	if r := parts[0].([]any); r[0] != "OK" || fmt.Sprint(r[5]) != fmt.Sprint([]any{v[10:15], k[99990:], v}) {
		t.Errorf("parts: %.200v", r)
	}
	k3, _ := planesOf(3)
	if r := parts[1].([]any); r[0] != "OK" || fmt.Sprint(r[5]) != fmt.Sprint([]any{k3[:1]}) {
		t.Errorf("one byte: %.200v", r)
	}
}

func TestKVSeal(t *testing.T) {
	p := newRig(t, Options{}).dial()
	h := p.open(testLayout(t, "fp16"))
	k, v := planesOf(1)
	seal := engine.SealOf([]byte(k), []byte(v))
	good := string(wire.AppendSeal(nil, &seal))
	put := func(seal string) any {
		return p.do("KV.PUT", h, "durable", "1", hashOf(1), "", seal, "2", "k", "B", k, "v", "B", v)
	}
	bad := seal
	bad.ChunkSums = append([]uint64{seal.ChunkSums[0] ^ 1}, seal.ChunkSums[1:]...)
	if a := put(string(wire.AppendSeal(nil, &bad))).([]any); statusOf(a[0]) != "Corrupt" && statusOf(a[0]) != "LengthMismatch" {
		t.Fatalf("a seal of other bytes: %#v", a)
	}
	if a := put(good).([]any)[0].([]any); a[0] != "OK" || a[2] != "durable" {
		t.Fatalf("a good seal: %#v", a)
	}
	a := p.do("KV.GET", h, "seal,timeout=20000", "1", hashOf(1), "0").([]any)[0].([]any)
	if a[0] != "OK" || a[4] != good {
		t.Errorf("the seal of the get differs: %v", a[0])
	}
	for _, s := range []string{"x", good[:len(good)-1], good + "x", "\x02" + good[1:]} {
		if f, isFailure := put(s).(failure); !isFailure || !strings.Contains(string(f), "seal") {
			t.Errorf("a malformed seal: %#v", f)
		}
	}
}

func TestKVLookups(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	h := p.open(testLayout(t, "fp16"))
	p.put(h, 1, 2, 3)
	m := p.do("KV.MATCH", h, hashOf(1), hashOf(2), hashOf(9), hashOf(3)).([]any)
	if m[0] != int64(2) || m[1] != int64(1) || m[2] != int64(60_000) {
		t.Fatalf("KV.MATCH: %v", m)
	}
	if r.store.Stats().LeasedBytes == 0 {
		t.Error("nothing is leased")
	}
	p.want(int64(1), "KV.RENEW", "1")
	r.dialWant(int64(0), "KV.RENEW", "1") // of another connection
	p.want(int64(1), "KV.RELEASE", "1")
	p.want(int64(0), "KV.RELEASE", "1")
	p.want(int64(0), "KV.RENEW", "x")
	p.want([]any{int64(0), int64(0), int64(0)}, "KV.MATCH", h, hashOf(9))
	p.want([]any{"OK", "Miss"}, "KV.HAS", h, hashOf(1), hashOf(9))
	p.want([]any{"Miss", "OK"}, "KV.TOUCH", h, hashOf(9), hashOf(2))
	p.want([]any{[]any{"OK", []any{int64(kBytes), int64(vBytes)}}, []any{"Miss", []any{}}}, "KV.STAT", h, hashOf(1), hashOf(9))
	p.want([]any{"OK", "Miss"}, "KV.DROP", h, hashOf(1), hashOf(9))
	p.want([]any{"Miss"}, "KV.HAS", h, hashOf(1))
	p.want([]any{"ok", []any{}}, "KV.HEALTH")
	for _, cmd := range []string{"KV.MATCH", "KV.HAS", "KV.TOUCH", "KV.DROP", "KV.STAT"} {
		p.fails("BADHANDLE", cmd, "77", hashOf(1))
		p.fails("BADHANDLE", cmd, "-1", hashOf(1))
		p.fails("ERR hash 2 has 3 bytes", cmd, h, hashOf(1), "abc")
		p.fails("ERR wrong number", cmd, h)
	}
}

func (r *rig) dialWant(want any, args ...string) {
	r.t.Helper()
	p := r.dial()
	p.want(want, args...)
	p.c.Close()
}

// TestLeasesEnd: leases end with their connection.
func TestLeasesEnd(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	h := p.open(testLayout(t, "fp16"))
	p.put(h, 1)
	p.do("KV.MATCH", h, hashOf(1))
	p.want(ok, "QUIT")
	p.ended()
	r.eventually(func() bool { return r.store.Stats().LeasedBytes == 0 })
}

func TestKVEpoch(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	h := p.open(testLayout(t, "fp16"))
	p.put(h, 1)
	a := p.do("KV.EPOCH", h).([]any)
	next := fmt.Sprint(a[0])
	if next == h {
		t.Fatalf("KV.EPOCH: %v", a)
	}
	p.want([]any{"StaleEpoch"}, "KV.HAS", h, hashOf(1))
	p.want([]any{"Miss"}, "KV.HAS", next, hashOf(1))
	p.fails("BADHANDLE", "KV.EPOCH", h)
	if got := p.open(testLayout(t, "fp16")); got != next {
		t.Errorf("opened again: handle %s, want %s", got, next)
	}
	if r := p.put(h, 1)[0].([]any); r[0] != "StaleEpoch" {
		t.Errorf("put by the old handle: %v", r)
	}
}

// TestPlainEpoch: who moves the epoch of the plain keys on gets misses, and
// plain keys go on.
func TestPlainEpoch(t *testing.T) {
	p := newRig(t, Options{}).dial()
	p.want(ok, "SET", "k", "v")
	l, err := json.Marshal(layout.Opaque(plainName))
	if err != nil {
		t.Fatal(err)
	}
	p.do("KV.EPOCH", p.open(string(l)))
	p.want(nil, "GET", "k")
	p.want(ok, "SET", "k", "w")
	p.want("w", "GET", "k")
}

// TestKVMalformed: what is wrong with the arguments is said, and nothing is done.
func TestKVMalformed(t *testing.T) {
	p := newRig(t, Options{}).dial()
	h := p.open(testLayout(t, "fp16"))
	for _, c := range []struct{ args, want string }{
		{"KV.PUT " + h + " ~ 0", "ERR argument 3: the number of blocks"},
		{"KV.PUT " + h + " ~ 5000", "ERR argument 3: the number of blocks"},
		{"KV.PUT " + h + " what 1", `ERR argument 2: flag "what"`},
		{"KV.PUT " + h + " timeout=0 1", "ERR argument 2: timeout"},
		{"KV.PUT " + h + " ~ 1", "ERR argument 4: the hash is missing"},
		{"KV.PUT " + h + " ~ 1 " + hashOf(1) + " ~ ~ 0", "ERR argument 7: the number of planes"},
		{"KV.PUT " + h + " ~ 1 " + hashOf(1) + " ~ ~ 1 k X data", `ERR argument 10: the kind of the data is "X"`},
		{"KV.PUT " + h + " ~ 1 " + hashOf(1) + " ~ ~ 1 k B", "ERR argument 10: the data is missing"},
		{"KV.PUT " + h + " ~ 1 " + hashOf(1) + " ~ ~ 1 k B data more", "ERR argument 11: there are 1 arguments too many"},
		{"KV.PUT " + h + " ~ 1 " + hashOf(1) + " ~ ~ 1 k S 1:0:10", "ERR argument 10: there are no regions"},
		{"KV.GET " + h + " ~ x", "ERR argument 3: the number of blocks"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1), "ERR argument 5: the number of parts is missing"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 1 k -1 0 B ~", "ERR argument 7: the offset"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 1 k 0 99999999999 B ~", "ERR argument 8: the length"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 1 k 0 0 Q ~", `ERR argument 10: the kind of the destination is "Q"`},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 1 k 0 0 B x", "ERR argument 10: the destination of kind B"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 0 0", "ERR argument 6: there are 1 arguments too many"},
		{"KV.REGION 10", "ERR memory can not be shared"},
	} {
		p.fails(c.want, step{args: c.args}.words()...)
	}
	p.want(int64(0), "KV.UNREGION", "1")
	// What is wrong with a block is that block's status.
	for _, c := range []struct{ args, want string }{
		{"KV.GET " + h + " ~ 1 short 0", "Invalid"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 1 nope 0 0 B ~", "Invalid"},
		{"KV.GET " + h + " ~ 1 " + hashOf(1) + " 1 k 100000 0 B ~", "LengthMismatch"},
		{"KV.PUT " + h + " ~ 1 " + hashOf(1) + " ~ ~ 1 k B x", "LayoutMismatch"},
		{"KV.PUT " + h + " ~ 1 short ~ ~ 1 k B x", "Invalid"},
	} {
		a, _ := p.do(step{args: c.args}.words()...).([]any)
		if len(a) != 1 || statusOf(a[0]) != c.want || a[0].([]any)[1] == "" {
			t.Errorf("%s: %#v, want %s and a reason", c.args, a, c.want)
		}
	}
}

// TestKVDamage: one block of a batch is damaged on disk; it alone is not served.
func TestKVDamage(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	h := p.open(testLayout(t, "fp16"))
	p.put(h, 1, 2, 3)
	_, v := planesOf(2)
	r.flip([]byte(v[:64]))
	for _, how := range []string{"0", "1"} {
		args := []string{"KV.GET", h, "", "3"}
		for i := 1; i <= 3; i++ {
			args = append(args, hashOf(i), how)
			if how == "1" {
				args = append(args, "v", "0", "0", "B", "")
			}
		}
		for i, a := range p.do(args...).([]any) {
			r := a.([]any)
			good := r[0] == "OK" && len(r[5].([]any)) > 0
			bad := (r[0] == "Corrupt" || how == "1" && r[0] == "Miss") && r[1] != "" && len(r[5].([]any)) == 0
			if i == 1 && !bad || i != 1 && !good {
				t.Errorf("block %d: %v %v", i+1, r[0], r[1])
			}
		}
	}
}
