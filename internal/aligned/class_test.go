package aligned

import (
	"testing"

	"pgregory.net/rapid"
)

func TestClasses(t *testing.T) {
	if unitBytes != PageBytes {
		t.Skipf("the table is of 4 KiB pages; this system has %d", unitBytes)
	}
	for _, c := range []struct{ size, pages, align int }{
		{1, 1, 1}, {4096, 1, 1}, {4097, 2, 2}, {8192, 2, 2}, {8193, 3, 1},
		{16 * 4096, 16, 16}, {16*4096 + 1, 18, 2}, {31 * 4096, 32, 32},
		{256<<10 + 4096, 72, 8}, {1 << 20, 256, 256}, {1<<20 + 1, 288, 32},
		{2 << 20, 512, 512}, {2<<20 + 4096, 576, 64}, {64 << 20, 16384, 512}, {64<<20 + 1, 18432, 512},
	} {
		if pages := classPages(c.size); pages != c.pages || classAlign(pages) != c.align {
			t.Errorf("%d bytes take %d pages aligned to %d, want %d, %d", c.size, pages, classAlign(pages), c.pages, c.align)
		}
	}
}

// TestClassWaste holds the promise of an eighth, and that a class is its own
// class and a multiple of its alignment.
func TestClassWaste(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 1<<30).Draw(t, "size")
		pages := classPages(size)
		got, whole := pages*unitBytes, roundUp(size, unitBytes)
		if got < size || got-whole > whole/8 {
			t.Errorf("%d bytes take %d", size, got)
		}
		if again := classPages(got); again != pages {
			t.Errorf("%d pages take %d", pages, again)
		}
		if pages%classAlign(pages) != 0 {
			t.Errorf("%d pages aligned to %d leave gaps", pages, classAlign(pages))
		}
	})
}
