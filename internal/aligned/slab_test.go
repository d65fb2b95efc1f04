package aligned

import (
	"testing"

	"pgregory.net/rapid"
)

func testSlab(t interface{ Fatal(...any) }, pages int, kind Huge) *slab {
	s, err := newSlab(pages*unitBytes, kind, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSlabFindsTheFirst compares the search for room with one that tries
// every page.
func TestSlabFindsTheFirst(t *testing.T) {
	const pages = 200
	s := testSlab(t, pages, HugeNone)
	defer unmapMemory(s.mem)
	rapid.Check(t, func(t *rapid.T) {
		s.used.clear(0, pages)
		for range rapid.IntRange(0, 12).Draw(t, "runs") {
			from := rapid.IntRange(0, pages).Draw(t, "from")
			s.used.set(from, min(pages, from+rapid.IntRange(1, 20).Draw(t, "pages")))
		}
		s.usedPages = s.used.count(0, pages)
		n, align := rapid.IntRange(1, pages).Draw(t, "n"), 1<<rapid.IntRange(0, 5).Draw(t, "align")
		want, wantOK := 0, false
		for at := 0; at+n <= pages && !wantOK; at += align {
			if s.used.nextSet(at, at+n) == at+n {
				want, wantOK = at, true
			}
		}
		if got, ok := s.find(n, align); got != want || ok != wantOK {
			t.Errorf("find(%d, %d) = %d, %v, want %d, %v", n, align, got, ok, want, wantOK)
		}
	})
}

// TestSlabFill: a cold block becomes warm as a whole when there is room for
// that; else it is made of small pages until it is cold again.
func TestSlabFill(t *testing.T) {
	s := testSlab(t, 3*hugePages, HugeTHP)
	defer unmapMemory(s.mem)
	take := func(page, pages, spare int) (run, int) {
		r := run{s: s, page: page, pages: pages}
		if cold := s.take(page, pages); cold != pages {
			t.Fatalf("%d of %d pages are cold", cold, pages)
		}
		return r, s.fill(&r, spare)
	}
	r, extra := take(0, 10, 1<<20)
	if extra != hugePages-10 || s.warmPages != hugePages || s.small.has(0) {
		t.Errorf("with room: %d pages more, %d warm", extra, s.warmPages)
	}
	s.give(r.page, r.pages)
	r, extra = take(hugePages, hugePages+5, 100)
	if extra != 0 || s.warmPages != 2*hugePages+5 || s.small.has(1) || !s.small.has(2) {
		t.Errorf("without room: %d pages more, %d warm, small %v %v", extra, s.warmPages, s.small.has(1), s.small.has(2))
	}
	if r.fillFrom != hugePages || r.fillTo != 2*hugePages+5 {
		t.Errorf("fills %d to %d", r.fillFrom, r.fillTo)
	}
	clear(r.bytes())
	s.give(r.page, r.pages)
	if got := s.coolBlocks(1); got != 5 || s.small.has(2) {
		t.Errorf("cooled %d pages, small %v", got, s.small.has(2))
	}
	if got := s.coolBlocks(1 << 20); got != 2*hugePages || s.warmPages != 0 {
		t.Errorf("cooled %d pages, %d are warm", got, s.warmPages)
	}
}

// TestSlabCoolsPages: only free and warm pages are returned, no more than are
// wanted, and what was returned reads as zeros.
func TestSlabCoolsPages(t *testing.T) {
	s := testSlab(t, 100, HugeNone)
	defer unmapMemory(s.mem)
	r := run{s: s, page: 0, pages: 100}
	s.take(0, 100)
	s.fill(&r, 0)
	for i := range s.mem {
		s.mem[i] = 1
	}
	s.give(10, 20)
	s.give(50, 10)
	for _, c := range []struct{ want, got int }{{5, 5}, {17, 17}, {100, 8}, {1, 0}} {
		if got := s.coolPages(c.want); got != c.got {
			t.Errorf("cooled %d pages, want %d", got, c.got)
		}
	}
	for i := range 100 {
		free := i >= 10 && i < 30 || i >= 50 && i < 60
		if zero := s.mem[i*unitBytes] == 0; zero != free || s.warm.has(i) == free {
			t.Errorf("page %d: zero %v, warm %v", i, zero, s.warm.has(i))
		}
	}
}
