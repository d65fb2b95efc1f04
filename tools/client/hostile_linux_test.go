package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/tools/internal/server"
	"golang.org/x/sys/unix"
)

// hostile is a peer that says what it likes, beside a client that does as it
// should.
type hostile struct {
	t      *testing.T
	rig    *rig
	conn   *conn
	handle int64
	mem    []byte   // of the region with number 1
	file   *os.File // of it
	honest *Namespace
}

const hostileBytes = 256 << 10

func newHostile(t *testing.T) *hostile {
	h := &hostile{t: t, rig: newRig(t, server.Options{})}
	h.honest = mustSpace(t, mustDial(t, h.rig.unix, Options{}))
	for id := range 4 {
		mustPut(t, h.honest, blockIn(id, contentOf(id, hostileBytes/2)))
	}
	ctx := context.Background()
	var err error
	if h.conn, err = connect(ctx, h.rig.unix, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.conn.close)
	if h.handle, err = h.conn.handle(ctx, h.honest.space); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("hostile", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	h.file = os.NewFile(uintptr(fd), "hostile")
	t.Cleanup(func() { h.file.Close() })
	h.cut(2 * hostileBytes)
	if h.mem, err = unix.Mmap(fd, 0, 2*hostileBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(h.mem) })
	// The region is half of the file: what is behind it must not be touched.
	if answer := h.region(h.file, hostileBytes); answer != "1" {
		t.Fatalf("region: %s", answer)
	}
	return h
}

func (h *hostile) cut(sizeBytes int64) {
	if err := h.file.Truncate(sizeBytes); err != nil {
		h.t.Error(err)
	}
}

// region passes a file and returns the answer.
func (h *hostile) region(f *os.File, sizeBytes int64) (answer string) {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	cmd := newCommand("KV.REGION")
	cmd.int(sizeBytes)
	err := h.conn.doWithFile(ctx, cmd, f, func(a *answers) error {
		p, err := a.text(answerLineMax)
		answer = string(p)
		return err
	})
	if err != nil {
		return err.Error()
	}
	return answer
}

// get asks for the planes of a block by spans, and returns its status, or the
// server's refusal.
func (h *hostile) get(id int, k, v string) string {
	cmd := newCommand("KV.GET")
	cmd.int(h.handle)
	cmd.str("timeout=30000")
	cmd.int(1)
	cmd.bytes(hashOf(id))
	cmd.int(2)
	for i, spans := range []string{k, v} {
		cmd.str([]string{"k", "v"}[i])
		cmd.int(0)
		cmd.int(0)
		cmd.str("S")
		cmd.str(spans)
	}
	it := getItem{block: &engine.GetBlock{Hash: hashOf(id)}, places: [][]place{{}, {}}}
	out := make([]engine.GetResult, 1)
	return h.outcome(cmd, func(a *answers) error { return readGets(a, []*getItem{&it}, out) }, func() (engine.Status, error) { return out[0].Status, out[0].Err })
}

func (h *hostile) put(id int, k, v string) string {
	cmd := newCommand("KV.PUT")
	for _, s := range []string{fmt.Sprint(h.handle), "", "1", string(hashOf(id)), "", "", "2", "k", "S", k, "v", "S", v} {
		cmd.str(s)
	}
	b := engine.PutBlock{Hash: hashOf(id)}
	out := make([]engine.PutResult, 1)
	return h.outcome(cmd, putGroup{[]putItem{{block: &b}}}.reader(out), func() (engine.Status, error) { return out[0].Status, out[0].Err })
}

func (p putGroup) reader(out []engine.PutResult) func(*answers) error {
	return func(a *answers) error { return p.read(a, out) }
}

func (h *hostile) outcome(cmd *command, read func(*answers) error, result func() (engine.Status, error)) string {
	h.t.Helper()
	err := h.conn.doUntil(time.Now().Add(hangTimeout), cmd, read)
	if h.conn.spent {
		h.t.Fatalf("the connection broke: %v", err)
	}
	if err != nil {
		return err.Error()
	}
	st, err := result()
	if err != nil {
		return st.String() + " " + err.Error()
	}
	return st.String()
}

// wantOthersWell: the honest client has its blocks, and nobody is blamed.
func (h *hostile) wantOthersWell() {
	h.t.Helper()
	p := make([]byte, hostileBytes/2)
	for id := range 4 {
		r := h.honest.Get(context.Background(), []engine.GetBlock{wantedIn(id, p)}, engine.GetOptions{})[0]
		if r.Status != engine.StatusOK || !bytes.Equal(p, contentOf(id, len(p))) {
			h.t.Errorf("another client's block %d: %v %v", id, r.Status, r.Err)
		}
	}
	st := h.rig.store.Stats()
	if st.Quarantined != 0 || st.PathsDemoted != 0 || st.GetStatus[engine.StatusCorrupt] != 0 || h.rig.store.Health().State != engine.HealthOK {
		h.t.Errorf("%d quarantined, %d paths demoted, gets %v", st.Quarantined, st.PathsDemoted, st.GetStatus)
	}
}

// TestHostileSpans: spans that lie outside their region, or overflow, move no
// byte; unaligned ones are served.
func TestHostileSpans(t *testing.T) {
	h := newHostile(t)
	for i := range h.mem {
		h.mem[i] = 0xa5
	}
	half := hostileBytes / 4 // of each plane
	for _, c := range []struct{ k, v, want string }{
		{fmt.Sprintf("1:%d:%d", hostileBytes-half+1, half), "1:0:65536", "which has"},
		{fmt.Sprintf("1:%d:%d", hostileBytes, half), "1:0:65536", "which has"},
		{"1:9223372036854775807:65536", "1:0:65536", "which has"},
		{"1:0:9223372036854775807", "1:0:65536", "which has"},
		{"1:9223372036854775807:9223372036854775807", "1:0:65536", "which has"},
		{"1:18446744073709551615:65536", "1:0:65536", "malformed"},
		{"1:-4096:65536", "1:0:65536", "malformed"},
		{"2:0:65536", "1:0:65536", "not registered"},
		{"0:0:65536", "1:0:65536", "not registered"},
		{"", "1:0:65536", "malformed"},
		{"1:0:0", "1:0:65536", "malformed"},
		{"1:0:65536", "1:65535:65536", "overlap"},
		{"1:0:65536", "1:0:65536", "overlap"},
		{"1:0:65535", "1:65536:65536", "LengthMismatch"},
	} {
		if got := h.get(1, c.k, c.v); !strings.Contains(got, c.want) {
			t.Errorf("get %s and %s: %s, want %s", c.k, c.v, got, c.want)
		}
		if c.want != "overlap" && c.want != "LengthMismatch" {
			if got := h.put(99, c.k, c.v); !strings.Contains(got, c.want) {
				t.Errorf("put %s and %s: %s, want %s", c.k, c.v, got, c.want)
			}
		}
	}
	for i, b := range h.mem {
		if b != 0xa5 {
			t.Fatalf("byte %d was written: %#x", i, b)
		}
	}
	for _, at := range []int{0, 1, 4095, hostileBytes - 2*half} { // to its last byte
		for i := range h.mem {
			h.mem[i] = 0xa5
		}
		if got := h.get(1, fmt.Sprintf("1:%d:%d", at, half), fmt.Sprintf("1:%d:100,1:%d:%d", at+half, at+half+100, half-100)); got != "OK" {
			t.Fatalf("unaligned at %d: %s", at, got)
		}
		if want := contentOf(1, 2*half); !bytes.Equal(h.mem[at:at+2*half], want) {
			t.Fatalf("unaligned at %d: WRONG BYTES with status OK", at)
		}
		for i, b := range h.mem {
			if (i < at || i >= at+2*half) && b != 0xa5 {
				t.Fatalf("unaligned at %d: byte %d outside of the spans was written", at, i)
			}
		}
	}
	if got := h.honest.Has(context.Background(), [][]byte{hashOf(99)}); got[0] != engine.StatusMiss {
		t.Errorf("something of a refused put is there: %v", got)
	}
	h.wantOthersWell()
}

// TestFaultRegionShrinks: the file of a region is cut before, while and after
// puts and gets use it.
func TestFaultRegionShrinks(t *testing.T) {
	h := newHostile(t)
	y := faulttest.New(t)
	half := hostileBytes / 4
	k, v := fmt.Sprintf("1:0:%d", half), fmt.Sprintf("1:%d:%d", half, half)
	fault := y.Try("cut before")
	for _, left := range []int64{0, 4096, int64(half) + 4096} {
		h.cut(left)
		fault.Fire()
		if got := h.get(1, k, v); !strings.Contains(got, "Invalid") || !strings.Contains(got, "memory went away") {
			t.Errorf("get, cut to %d: %s", left, got)
		}
		if got := h.put(99, k, v); !strings.Contains(got, "Invalid") || !strings.Contains(got, "memory went away") {
			t.Errorf("put, cut to %d: %s", left, got)
		}
	}
	h.cut(2 * hostileBytes) // and it is good again
	if got := h.get(1, k, v); got != "OK" || !bytes.Equal(h.mem[:2*half], contentOf(1, 2*half)) {
		t.Errorf("long again: %s", got)
	}
	fault.Survive()

	fault = y.Try("cut while it is used")
	stop, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				h.cut(i * 13 % 65 * 4096)
			}
		}
	})
	gone := func() bool { return h.rig.store.Stats().MemoryGone > 30 }
	for end := time.Now().Add(hangTimeout); !gone() && time.Now().Before(end); {
		for _, got := range []string{h.get(1, k, v), h.put(99, k, v)} {
			if got != "OK" && !strings.Contains(got, "memory went away") {
				t.Fatal(got)
			}
		}
	}
	close(stop)
	ended.Wait()
	if gone() {
		fault.Fire()
	}
	h.cut(0) // after; and then the connection ends
	h.wantOthersWell()
	fault.Survive()
}

// TestFaultRegionScribbled: somebody writes into the region for ever.
func TestFaultRegionScribbled(t *testing.T) {
	h := newHostile(t)
	fault := faulttest.New(t).Try("a region that is written to")
	half := hostileBytes / 4
	stop, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for i := byte(1); ; i++ {
			select {
			case <-stop:
				return
			default:
				for at := 0; at < len(h.mem); at += 4096 {
					h.mem[at] = i
				}
			}
		}
	})
	changed := func() bool { return h.rig.store.Stats().MemoryChanged > 20 }
	for end := time.Now().Add(hangTimeout); !changed() && time.Now().Before(end); {
		if got := h.get(1, fmt.Sprintf("1:0:%d", half), fmt.Sprintf("1:%d:%d", half, half)); got != "OK" {
			t.Fatal(got)
		}
	}
	close(stop)
	ended.Wait()
	if changed() {
		fault.Fire()
	}
	h.wantOthersWell()
	fault.Survive()
}

// TestHostileDescriptors: files of the wrong kind, too many regions, and
// descriptors that nobody asked for cost nothing that stays.
func TestHostileDescriptors(t *testing.T) {
	h := newHostile(t)
	before := openFiles(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*os.File{"pipe": r, "directory": mustOpenFile(t, "/dev/shm"), "device": mustOpenFile(t, "/dev/zero"), "disk": mustOpenFile(t, os.Args[0])} {
		if got := h.region(f, 4096); !strings.Contains(got, "ERR") || !strings.Contains(got, "F_GET_SEALS") {
			t.Errorf("%s: %s", name, got)
		}
		f.Close()
	}
	w.Close()
	for _, size := range []int64{0, -1, 2*hostileBytes + 1, 1 << 62} {
		if got := h.region(h.file, size); !strings.Contains(got, "ERR") && !strings.Contains(got, "LIMIT") {
			t.Errorf("%d bytes: %s", size, got)
		}
	}
	limited := 0
	for range 1000 {
		if got := h.region(h.file, 4096); strings.Contains(got, "LIMIT") {
			limited++
		}
	}
	if limited < 900 {
		t.Errorf("%d of 1000 regions were refused", limited)
	}
	u := h.conn.net.(*net.UnixConn)
	var many []int
	for range 100 {
		many = append(many, int(h.file.Fd()))
	}
	for range 20 {
		if _, _, err := u.WriteMsgUnix([]byte("PING\r\n"), unix.UnixRights(many...), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := h.conn.in.text(100); err != nil || string(got) != "PONG" {
			t.Fatalf("%q %v", got, err)
		}
	}
	if now := openFiles(t); now > before+8 {
		t.Errorf("%d descriptors are open, %d were before", now, before)
	}
	h.wantOthersWell()
	h.conn.close()
	eventually(t, "the mappings are gone", func() bool { return mappings(t, "memfd:hostile") == 1 }) // our own
}

func mustOpenFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// mappings counts those of this process, which is the server's too.
func mappings(t *testing.T, name string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), name)
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hangTimeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("hangs: waiting until " + what)
		}
	}
}

// TestFaultClientKilled: a client is killed in the middle of gets into its
// region. The region ends, others go on.
func TestFaultClientKilled(t *testing.T) {
	h := newHostile(t)
	y := faulttest.New(t)
	for i := range 3 {
		fault := y.Try(fmt.Sprint("kill -9 of client ", i))
		child := startChild(t, h.rig.unix)
		eventually(t, "the child gets", func() bool { return mappings(t, "memfd:sealstone") > 0 })
		served := h.rig.store.Stats().StraightBytes
		eventually(t, "the child gets more", func() bool { return h.rig.store.Stats().StraightBytes > served+4*hostileBytes })
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil {
			t.Error("the child ended by itself")
		} else {
			fault.Fire()
		}
		y.Kills(1)
		eventually(t, "its mappings are gone", func() bool { return mappings(t, "memfd:sealstone") == 0 })
		h.wantOthersWell()
		fault.Survive()
	}
}

// runChild gets blocks into shared memory until it is killed.
func runChild(address string) error {
	c, err := Dial(context.Background(), address, Options{Connections: 2})
	if err != nil {
		return err
	}
	n, err := c.Namespace(context.Background(), testLayout(), "", engine.NamespaceOptions{})
	if err != nil {
		return err
	}
	r, err := c.NewRegion(2 * hostileBytes)
	if err != nil {
		return err
	}
	for {
		var gets []engine.GetBlock
		for id := range 4 {
			gets = append(gets, wantedIn(id, r.Bytes()[id*hostileBytes/2:][:hostileBytes/2]))
		}
		for _, res := range n.Get(context.Background(), gets, engine.GetOptions{WaitForDevice: true}) {
			if res.Status != engine.StatusOK {
				return errors.New("child: " + res.Err.Error())
			}
		}
	}
}
