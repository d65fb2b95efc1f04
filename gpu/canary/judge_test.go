package canary

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

const testIOBytes = 128 << 10

// good is what is seen of a read that does what it should, as the second one
// after the file was rewritten.
func good(tr transfer) *evidence {
	e := &evidence{
		transfer: tr, returned: tr.Length, file: testContents()[0], before: testContents()[1],
		poison: 0x5a, guard: 0xc3,
		neighbour: bytes.Repeat([]byte{0xc3}, 3*pieceBytes),
		slot: slices.Concat(bytes.Repeat([]byte{0xc3}, pieceBytes), bytes.Repeat([]byte{0x5a}, testIOBytes),
			bytes.Repeat([]byte{0xc3}, pieceBytes)),
		owner:        bytes1((tr.Length + pieceBytes - 1) / pieceBytes),
		routesBefore: &routes{P2P: 3, NVFS: 2, POSIX: 7}, routesAfter: &routes{P2P: 4, NVFS: 2, POSIX: 7},
	}
	copy(e.got(), e.want())
	return e
}

// testContents are two contents of a file. Nobody changes them.
var testContents = sync.OnceValue(func() (c [2][]byte) {
	rng := rand.NewChaCha8([32]byte{1})
	for i := range c {
		c[i] = make([]byte, fileBytes(testIOBytes))
		_, _ = rng.Read(c[i])
	}
	return c
})

func bytes1(n int64) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = ownerMatch
	}
	return s
}

// fill sets all bytes.
func fill(b []byte, v byte) { copy(b, bytes.Repeat([]byte{v}, len(b))) }

// TestJudge holds each fault to the finding that names it, and shows that its
// rule is needed: with all others in force and this one left out the fault
// passes.
func TestJudge(t *testing.T) {
	read := transfer{20 << 10, 4 << 10, 68 << 10}
	cases := map[string]struct {
		fault func(*evidence)
		rule  rule
		name  string
		says  string
	}{
		"short":                           {func(e *evidence) { e.returned -= pageBytes }, ruleLength, nameShortRead, "reported 65536 bytes"},
		"nothing reported":                {func(e *evidence) { e.returned = 0 }, ruleLength, nameShortRead, "reported 0 bytes"},
		"more than asked for":             {func(e *evidence) { e.returned++ }, ruleLength, nameShortRead, "reported 69633 bytes"},
		"nothing written":                 {func(e *evidence) { fill(e.got(), e.poison) }, ruleContent, nameStale, "wrote none"},
		"half landed":                     {func(e *evidence) { fill(e.got()[34<<10:], e.poison) }, ruleContent, nameHalfLanded, "first 34816 arrived"},
		"last byte missing":               {func(e *evidence) { e.got()[e.Length-1] ^= 1 }, ruleContent, nameWrongBytes, "1 of 69632 bytes are wrong, the first at 69631"},
		"off by a page, up":               {func(e *evidence) { copy(e.got(), e.file[e.FileOffset+pageBytes:]) }, ruleContent, nameMisplaced, "+4096"},
		"off by a page, down":             {func(e *evidence) { copy(e.got(), e.file[e.FileOffset-pageBytes:]) }, ruleContent, nameMisplaced, "-4096"},
		"offset dropped":                  {func(e *evidence) { copy(e.got(), e.file) }, ruleContent, nameMisplaced, "-20480"},
		"zeros":                           {func(e *evidence) { fill(e.got(), 0) }, ruleContent, nameWrongBytes, "the first at 0"},
		"what stood there before":         {func(e *evidence) { copy(e.got(), e.before[e.FileOffset:]) }, ruleContent, nameOldBytes, "before it was rewritten"},
		"a mirror of the memory":          {func(e *evidence) { e.owner[1] = 2 }, ruleOwner, nameOwner, "sees others at 65536"},
		"a kernel that ran in part":       {func(e *evidence) { e.owner[0] = 0 }, ruleOwner, nameKernel, "status 0"},
		"a kernel that answers for fewer": {func(e *evidence) { e.owner = e.owner[:1] }, ruleOwner, nameKernel, "for 1 of 2 pieces"},
		"a kernel that answers for none":  {func(e *evidence) { e.owner = []uint32{} }, ruleOwner, nameKernel, "for 0 of 2 pieces"},
		"byte before the slot":            {func(e *evidence) { e.slot[pieceBytes-1] ^= 1 }, ruleGuards, nameGuard, "a byte 1 before"},
		"first guard byte":                {func(e *evidence) { e.slot[0] ^= 1 }, ruleGuards, nameGuard, "a byte 65536 before"},
		"byte behind the slot":            {func(e *evidence) { e.slot[len(e.slot)-pieceBytes] ^= 1 }, ruleGuards, nameGuard, "a byte 0 behind"},
		"last guard byte":                 {func(e *evidence) { e.slot[len(e.slot)-1] ^= 1 }, ruleGuards, nameGuard, "a byte 65535 behind"},
		"slot before destination":         {func(e *evidence) { e.slot[e.inSlot()-1] ^= 1 }, ruleRest, nameSlot, "the byte 1 before"},
		"slot behind destination":         {func(e *evidence) { e.slot[e.inSlot()+e.Length] ^= 1 }, ruleRest, nameSlot, "the byte 0 behind"},
		"neighbour's buffer":              {func(e *evidence) { e.neighbour[70000] ^= 1 }, ruleNeighbour, nameNeighbour, "byte 70000 of"},
		"through host memory":             {func(e *evidence) { e.routesAfter.POSIX++ }, ruleRoute, nameHostRoute, "counted 8 reads by POSIX"},
		"a part through host memory":      {func(e *evidence) { e.routesAfter.POSIX += 2; e.routesAfter.NVFS++ }, ruleRoute, nameHostRoute, "counted 9"},
		"no route counted":                {func(e *evidence) { e.routesAfter.P2P-- }, ruleRoute, nameNoRoute, "no read by a direct route"},
		"a counter that fell":             {func(e *evidence) { e.routesAfter.P2P = 0; e.routesAfter.NVFS = 9 }, ruleRoute, nameNoRoute, "peer to peer 0, 3 before"},
		"no counters before":              {func(e *evidence) { e.routesBefore = nil }, ruleCounted, nameNoCounters, "since CUDA 13.0"},
		"no counters after":               {func(e *evidence) { e.routesAfter = nil }, ruleCounted, nameNoCounters, "since CUDA 13.0"},
	}
	if f := judge(good(read), allRules); f != nil {
		t.Fatalf("a good read: %+v", f)
	}
	caught := rule(0)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := good(read)
			c.fault(e)
			f := judge(e, allRules)
			if f == nil || f.name != c.name || !strings.Contains(f.reason, c.says) {
				t.Fatalf("found %+v, want %s with %q", f, c.name, c.says)
			}
			if !strings.HasPrefix(f.reason, "read of 69632 bytes at 20480 to 4096: ") {
				t.Errorf("the reason does not say which read: %s", f.reason)
			}
			if f := judge(e, allRules&^c.rule); f != nil {
				t.Errorf("without its rule the fault is still found, as %+v: the rule is not needed for it", f)
			}
			caught |= c.rule
		})
	}
	if caught != allRules {
		t.Errorf("rules %b were shown to be needed, there are %b", caught, allRules)
	}
}

// TestLaw6TrialLooks: a read that reports success and brought other bytes, or put
// them elsewhere, never passes.
func TestLaw6TrialLooks(t *testing.T) {
	for name, fault := range map[string]func(*evidence){
		"stale":     func(e *evidence) { fill(e.got(), e.poison) },
		"one bit":   func(e *evidence) { e.got()[100] ^= 4 },
		"mirror":    func(e *evidence) { e.owner[0] = ownerMismatch },
		"guard":     func(e *evidence) { e.slot[10] ^= 1 },
		"neighbour": func(e *evidence) { e.neighbour[10] ^= 1 },
		"by host":   func(e *evidence) { e.routesAfter.POSIX++ },
	} {
		for _, r := range plan(testIOBytes) {
			e := good(r)
			fault(e)
			if judge(e, allRules) == nil {
				t.Errorf("%s: the read of %d bytes passed", name, r.Length)
			}
		}
	}
}

// TestPoison shows why the slot is filled anew before each read: a read that
// brings nothing passes where the right bytes were left by the last one.
func TestPoison(t *testing.T) {
	e := good(transfer{0, 0, 4096})
	left := bytes.Clone(e.got())
	fill(e.got(), e.poison)
	if f := judge(e, allRules); f == nil || f.name != nameStale {
		t.Errorf("filled anew: found %+v", f)
	}
	copy(e.got(), left)
	if f := judge(e, allRules); f != nil {
		t.Errorf("not filled anew: found %+v; then the filling would not be needed", f)
	}
}

// TestRewrite shows why the file is rewritten: a path that keeps bytes of its
// own passes the first round.
func TestRewrite(t *testing.T) {
	e := good(transfer{8192, 4096, 4096})
	first := *e
	first.file, first.before = e.before, nil
	first.slot = bytes.Clone(e.slot)
	copy(first.got(), first.want())
	if f := judge(&first, allRules); f != nil {
		t.Errorf("first round: %+v", f)
	}
	copy(e.got(), first.got())
	if f := judge(e, allRules); f == nil || f.name != nameOldBytes {
		t.Errorf("second round: found %+v", f)
	}
}

// TestAnyWrongByte changes any byte of the copies back to any other value: the
// read never passes.
func TestAnyWrongByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := rapid.SampledFrom(plan(testIOBytes)).Draw(t, "read")
		e := good(tr)
		at := rapid.IntRange(0, len(e.slot)+len(e.neighbour)-1).Draw(t, "at")
		change := byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if at < len(e.slot) {
			e.slot[at] ^= change
		} else {
			e.neighbour[at-len(e.slot)] ^= change
		}
		if f := judge(e, allRules); f == nil {
			t.Fatalf("byte %d changed by %#x passes", at, change)
		}
	})
}

// TestPlan holds the reads to what cuFile takes and to what makes mistakes
// visible.
func TestPlan(t *testing.T) {
	for _, most := range []int64{MinIOBytesMax, 192 << 10, 1 << 20, 4 << 20, DefaultIOBytesMax, MaxIOBytesMax} {
		reads := plan(most)
		seen := map[int64]transfer{}
		for _, r := range reads {
			if r.FileOffset%pageBytes != 0 || r.SlotOffset%pageBytes != 0 || r.Length%pageBytes != 0 || r.Length <= 0 {
				t.Errorf("%d: %+v is not on whole pages", most, r)
			}
			if r.FileOffset+r.Length > fileBytes(most) || r.SlotOffset+r.Length > most {
				t.Errorf("%d: %+v is outside the file or the slot", most, r)
			}
			if other, ok := seen[r.FileOffset-r.SlotOffset]; ok {
				t.Errorf("%d: %+v and %+v have the same difference of offsets", most, r, other)
			}
			seen[r.FileOffset-r.SlotOffset] = r
		}
		if last := reads[len(reads)-1]; last.Length != most || last.FileOffset+last.Length != fileBytes(most) {
			t.Errorf("%d: the largest read is %+v", most, last)
		}
		if len(reads) < 4 {
			t.Errorf("%d: only %d reads", most, len(reads))
		}
	}
}

func TestCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 3*stepBytes).Draw(t, "n")
		a := bytes.Repeat([]byte{7}, n)
		b := bytes.Clone(a)
		first, count := n, 0
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			if n == 0 {
				break
			}
			at := rapid.IntRange(0, n-1).Draw(t, "at")
			if b[at] == 7 {
				b[at], count = 8, count+1
			}
			first = min(first, at)
		}
		if got := firstDifference(a, b); got != first {
			t.Errorf("first difference %d, want %d", got, first)
		}
		if got := differences(a, b); got != count {
			t.Errorf("%d differences, want %d", got, count)
		}
		want := first
		if count == 0 {
			want = -1
		}
		if got := firstOther(b, 7); got != want {
			t.Errorf("first other %d, want %d", got, want)
		}
	})
}
