package resp

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestReaderCommands(t *testing.T) {
	long := strings.Repeat("v", SmallBytesMax+1)
	for name, c := range map[string]struct {
		in   string
		want [][]string
	}{
		"array":             {frame("GET", "k"), [][]string{{"GET", "k"}}},
		"empty argument":    {frame("SET", "k", ""), [][]string{{"SET", "k", ""}}},
		"binary":            {frame("SET", "\r\n*$", "\x00\xff"), [][]string{{"SET", "\r\n*$", "\x00\xff"}}},
		"long value":        {frame("SET", "k", long), [][]string{{"SET", "k", long}}},
		"two long values":   {frame("MSET", "a", long, "b", long+"x"), [][]string{{"MSET", "a", long, "b", long + "x"}}},
		"pipelined":         {frame("A") + frame("B", long) + frame("C"), [][]string{{"A"}, {"B", long}, {"C"}}},
		"nothing":           {"", nil},
		"empty arrays":      {"*0\r\n*-1\r\n" + frame("A"), [][]string{{"A"}}},
		"line feed alone":   {"*1\n$1\nA\r\n", [][]string{{"A"}}},
		"inline":            {"PING\r\nset a  b \n", [][]string{{"PING"}, {"set", "a", "b"}}},
		"empty lines":       {"\r\n\n  \r\nPING\r\n", [][]string{{"PING"}}},
		"quotes":            {`set "a b" 'c d' e"f g"` + "\r\n", [][]string{{"set", "a b", "c d", "ef g"}}},
		"empty quotes":      {`set "" ''` + "\r\n", [][]string{{"set", "", ""}}},
		"escapes":           {`"\n\r\t\b\a\x41\q\"" '\'\n'` + "\r\n", [][]string{{"\n\r\t\b\aAq\"", `'\n`}}},
		"escape half":       {`"\x4" "\xzz"` + "\r\n", [][]string{{"x4", "xzz"}}},
		"inline then array": {"PING\r\n" + frame("ECHO", "x"), [][]string{{"PING"}, {"ECHO", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, src := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
				"end with data": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				h := newHeap()
				r := NewReader(src, h, testLimits, never)
				all, err := readAll(r)
				if err != nil || len(all) != len(c.want) {
					t.Fatalf("%s: %d commands, %v, want %d", kind, len(all), err, len(c.want))
				}
				for i, g := range all {
					if fmt.Sprintf("%q", g.args) != fmt.Sprintf("%q", c.want[i]) || g.lost != nil || g.cut != 0 {
						t.Errorf("%s: command %d: %.200q, want %.200q", kind, i, g.args, c.want[i])
					}
				}
				if !h.empty() {
					t.Errorf("%s: memory is left: %+v", kind, h)
				}
			}
		})
	}
}

func TestReaderMalformed(t *testing.T) {
	for _, in := range []string{
		"*x\r\n", "*\r\n", "*1x\r\n", "*-2\r\n", "*01\r\n", "*+1\r\n", "* 1\r\n", "*99999999999999999999\r\n", "*2001\r\n",
		"*1\r\nGET\r\n", "*1\r\n\r\n", "*1\r\n:1\r\n", "*1\r\n*1\r\n$1\r\nA\r\n",
		"*1\r\n$-1\r\n", "*1\r\n$\r\n", "*1\r\n$x\r\n", "*1\r\n$536870913\r\n", "*1\r\n$-5\r\n",
		"*1\r\n$3\r\nGETxx", "*1\r\n$3\r\nGET\n\r", "*1\r\n$1\r\nGET\r\n",
		"*1\r\n$9000\r\n" + strings.Repeat("x", 9000) + "xx",
		"*" + strings.Repeat("1", bufferBytes), strings.Repeat("x", bufferBytes+1),
		"set \"a\r\n", "set 'a\r\n", "set \"a\"b\r\n",
	} {
		all, h, err := readString(in, testLimits)
		if !isMalformed(err) || len(all) != 0 {
			t.Errorf("%.60q: %v after %d commands, want a protocol error", in, err, len(all))
		}
		if err != nil && strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%.60q: a line end in %q", in, err)
		}
		if !h.empty() {
			t.Errorf("%.60q: memory is left: %+v", in, h)
		}
	}
}

// TestReaderCut: a stream that ends within a frame is told from one that ends
// between two.
func TestReaderCut(t *testing.T) {
	whole := frame("SET", "key", strings.Repeat("v", SmallBytesMax+100)) + "PING\r\n"
	inline := len(whole) - len("PING\r\n")
	for n := range len(whole) {
		all, h, err := readString(whole[:n], testLimits)
		if want := n >= inline; want != (len(all) == 1) {
			t.Fatalf("cut at %d: %d commands", n, len(all))
		}
		want := io.ErrUnexpectedEOF
		if n == 0 || n == inline {
			want = nil
		}
		if !errors.Is(err, want) {
			t.Fatalf("cut at %d: %v, want %v", n, err, want)
		}
		if !h.empty() {
			t.Fatalf("cut at %d: memory is left: %+v", n, h)
		}
	}
}

// TestReaderLost: what is too long, or finds no room, is read and forgotten, and
// the stream stays in step.
func TestReaderLost(t *testing.T) {
	bytes := func(n int) string { return strings.Repeat("v", n) }
	for name, c := range map[string]struct {
		args []string
		lost []Lost
	}{
		"value":    {[]string{"SET", "k", bytes(100_001), "x"}, []Lost{{2, 100_001, ReasonValueBytes}}},
		"command":  {[]string{"M", bytes(100_000), bytes(100_000), bytes(100_000), "x"}, []Lost{{3, 100_000, ReasonCommandBytes}}},
		"two":      {[]string{"M", bytes(200_000), "a", bytes(200_000)}, []Lost{{1, 200_000, ReasonValueBytes}, {3, 200_000, ReasonValueBytes}}},
		"the name": {[]string{bytes(100_001), "k"}, []Lost{{0, 100_001, ReasonValueBytes}}},
	} {
		t.Run(name, func(t *testing.T) {
			all, h, err := readString(frame(c.args...)+frame("NEXT"), testLimits)
			if err != nil || len(all) != 2 || all[1].args[0] != "NEXT" {
				t.Fatalf("%d commands, %v", len(all), err)
			}
			if fmt.Sprint(all[0].lost) != fmt.Sprint(c.lost) || len(all[0].args) != len(c.args) {
				t.Fatalf("lost %v of %d, want %v", all[0].lost, len(all[0].args), c.lost)
			}
			for i, a := range all[0].args {
				isLost := false
				for _, l := range c.lost {
					isLost = isLost || l.Arg == i
				}
				if isLost && a != "" || !isLost && a != c.args[i] {
					t.Errorf("argument %d: %.20q", i, a)
				}
			}
			if !h.empty() {
				t.Errorf("memory is left: %+v", h)
			}
		})
	}
}

// TestReaderMemory: the memory that all connections share is full.
func TestReaderMemory(t *testing.T) {
	h := newHeap()
	h.limit = 20_000
	in := frame("MSET", strings.Repeat("a", 9000), strings.Repeat("b", 9000), strings.Repeat("c", 9000)) + frame("NEXT")
	all, err := readAll(NewReader(strings.NewReader(in), h, testLimits, never))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	if l := all[0].lost; len(l) != 1 || l[0] != (Lost{3, 9000, ReasonMemory}) {
		t.Errorf("lost %v", l)
	}
	if !h.empty() {
		t.Errorf("memory is left: %+v", h)
	}
}

// TestReaderCharge: long lists of short arguments are charged for; those past
// the bound are cut off, and counted.
func TestReaderCharge(t *testing.T) {
	args := make([]string, 1500)
	for i := range args {
		args[i] = strings.Repeat("h", 64)
	}
	h := newHeap()
	h.bound = 64 << 10
	in := frame(args...) + frame("NEXT")
	r := NewReader(strings.NewReader(in), h, testLimits, never)
	c, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Args) + c.Cut; n != len(args) || c.Cut == 0 {
		t.Fatalf("%d arguments and %d cut off, want %d", len(c.Args), c.Cut, len(args))
	}
	if h.charged == 0 || h.charged > h.bound {
		t.Fatalf("charged %d of %d", h.charged, h.bound)
	}
	if c, err = r.Next(); err != nil || string(c.Args[0]) != "NEXT" || len(c.Args) != 1 || c.Cut != 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	r.Release()
	if !h.empty() {
		t.Errorf("memory is left: %+v", h)
	}
}

// TestReaderStrict: a stranger's long arguments end the connection.
func TestReaderStrict(t *testing.T) {
	l := Limits{ArgsMax: 3, ValueBytesMax: 10, CommandBytesMax: 20, Strict: true}
	for in, ok := range map[string]bool{
		frame("AUTH", "u", "p"):                          true,
		frame("AUTH", "u", "p", "x"):                     false,
		frame("AUTH", "12345678901"):                     false,
		frame("1234567890", "1234567890", "1"):           false,
		frame("1234567890", "1234567890"):                true,
		"a b c\r\n":                                      true,
		"a b c d\r\n":                                    false,
		"*1\r\n$100000000\r\n" + strings.Repeat("x", 10): false,
	} {
		all, _, err := readString(in, l)
		if ok && (err != nil || len(all) != 1) || !ok && !isMalformed(err) {
			t.Errorf("%.40q: %d commands, %v", in, len(all), err)
		}
	}
}

// TestReaderHook: the hook learns how much of a frame came, and ends the read.
func TestReaderHook(t *testing.T) {
	in := frame("SET", "k", strings.Repeat("v", 30_000)) + frame("PING")
	stop := errors.New("stop")
	var seen []int64
	r := NewReader(iotest.HalfReader(strings.NewReader(in)), newHeap(), testLimits, func(n int64) error {
		seen = append(seen, n)
		return nil
	})
	if all, err := readAll(r); err != nil || len(all) != 2 {
		t.Fatalf("%d commands, %v", len(all), err)
	}
	between := 0
	last := int64(-2)
	for _, n := range seen {
		if n == Between {
			between++
		} else if n <= last {
			t.Fatalf("%v: does not grow within a frame", seen)
		}
		last = n
	}
	if between < 2 || len(seen) < 5 {
		t.Errorf("%v: %d reads between frames", seen, between)
	}
	r = NewReader(strings.NewReader(in), newHeap(), testLimits, func(int64) error { return stop })
	if _, err := r.Next(); err != stop {
		t.Errorf("%v, want the hook's error", err)
	}
}

// TestReaderChunks: whatever the pieces that a stream comes in, the commands are
// those that were sent.
func TestReaderChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		var in strings.Builder
		var want [][]string
		for range 1 + rng.IntN(5) {
			args := make([]string, 1+rng.IntN(6))
			for i := range args {
				args[i] = strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN([]int{3, 100, 8194, 40_000}[rng.IntN(4)]))
			}
			want = append(want, args)
			in.WriteString(frame(args...))
		}
		h := newHeap()
		r := NewReader(&pieces{strings.NewReader(in.String()), rng}, h, testLimits, never)
		all, err := readAll(r)
		if err != nil || len(all) != len(want) {
			t.Fatalf("%d commands of %d, %v", len(all), len(want), err)
		}
		for i, g := range all {
			if fmt.Sprint(g.args) != fmt.Sprint(want[i]) {
				t.Fatalf("command %d differs", i)
			}
		}
		if !h.empty() {
			t.Fatalf("memory is left: %+v", h)
		}
	})
}

// pieces reads in pieces of any length.
type pieces struct {
	r   io.Reader
	rng *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	return p.r.Read(b[:1+p.rng.IntN(min(len(b), 1+p.rng.IntN(20_000)))])
}

// TestReaderAllocations: a small command costs no allocation.
func TestReaderAllocations(t *testing.T) {
	in := strings.NewReader("")
	r := NewReader(in, newHeap(), testLimits, never)
	one := frame("SET", "some key", strings.Repeat("v", 4096))
	n := testing.AllocsPerRun(100, func() {
		in.Reset(one)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for a command", n)
	}
}

// TestReadAhead: what was read ahead is read in its turn, up to its end, within
// its bound.
func TestReadAhead(t *testing.T) {
	var in strings.Builder
	for i := range 40 {
		in.WriteString(frame("SET", fmt.Sprint(i), strings.Repeat("v", 9000)))
	}
	for _, most := range []int64{0, aheadChunk, 3 * aheadChunk, 1 << 30} {
		h := newHeap()
		r := NewReader(strings.NewReader(in.String()), h, testLimits, never)
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		r.ReadAhead(most)
		if h.charged > most {
			t.Errorf("%d bytes read ahead, %d allowed", h.charged, most)
		}
		all, err := readAll(r)
		if err != nil || len(all) != 39 || all[38].args[1] != "39" {
			t.Fatalf("%d commands, %v", len(all), err)
		}
		if r.Close(); !h.empty() {
			t.Errorf("memory is left: %+v", h)
		}
	}
	h := newHeap()
	r := NewReader(strings.NewReader(in.String()), h, testLimits, never)
	r.ReadAhead(1 << 30)
	if r.Close(); !h.empty() {
		t.Errorf("memory is left: %+v", h)
	}
}
