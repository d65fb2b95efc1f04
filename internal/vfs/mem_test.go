package vfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"pgregory.net/rapid"
)

func TestMemCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacityBytes(10*pageBytes + 100) // the 100 hold no page
	file := open(t, m, "f")
	write(t, file, 0, strings.Repeat("x", 4*pageBytes))
	if u, err := m.Statfs(); err != nil || u.AvailableBytes != 6*pageBytes {
		t.Errorf("Statfs = %+v, %v", u, err)
	}
	wantErr(t, "Preallocate", file.Preallocate(0, 11*pageBytes), syscall.ENOSPC)
	if info, _ := file.Stat(); info.SizeBytes != 4*pageBytes || m.UsedBytes() != 4*pageBytes {
		t.Errorf("a refused preallocation left %+v, %d used", info, m.UsedBytes())
	}
	must(t, file.Preallocate(0, 8*pageBytes))
	must(t, file.Preallocate(0, 8*pageBytes)) // held already

	// Room for two pages more: the write is cut where it ends.
	n, err := file.WriteAt(make([]byte, 4*pageBytes), 7*pageBytes+10)
	wantErr(t, "WriteAt", err, syscall.ENOSPC)
	if n != 3*pageBytes-10 || m.UsedBytes() != 10*pageBytes {
		t.Errorf("wrote %d, %d used", n, m.UsedBytes())
	}
	write(t, file, 100, "within what is allocated")
	_, err = open(t, m, "g").WriteAt([]byte("x"), 0)
	wantErr(t, "WriteAt of another file", err, syscall.ENOSPC)

	// A removed file holds its room until it is closed.
	must(t, m.Remove("f"))
	if m.UsedBytes() != 10*pageBytes {
		t.Errorf("%d used while the file is open", m.UsedBytes())
	}
	must(t, file.Close())
	if m.UsedBytes() != 0 {
		t.Errorf("%d used after the close", m.UsedBytes())
	}
}

func TestMemUsedAfterReplace(t *testing.T) {
	m := NewMem()
	put(t, m, "a", "1")
	put(t, m, "b", "2")
	must(t, m.Link("b", "c"))
	must(t, m.Rename("a", "b")) // the old b lives on as c
	if m.UsedBytes() != 2*pageBytes {
		t.Errorf("%d used, want two pages", m.UsedBytes())
	}
	must(t, m.Rename("b", "c"))
	if m.UsedBytes() != pageBytes {
		t.Errorf("%d used, want one page", m.UsedBytes())
	}
	must(t, m.RemoveAll("c"))
	if m.UsedBytes() != 0 {
		t.Errorf("%d used in an empty tree", m.UsedBytes())
	}
}

func TestMemDirect(t *testing.T) {
	m := NewMem()
	file, err := m.Open("f", Create|Direct)
	must(t, err)
	defer file.Close()
	buf, err := aligned.Alloc(8192)
	must(t, err)
	defer buf.Free()
	p := buf.Bytes()
	_, err = file.WriteAt(p[:1536], 512)
	must(t, err)
	for _, c := range []struct {
		what string
		p    []byte
		off  int64
	}{
		{"offset", p[:512], 100},
		{"length", p[:500], 0},
		{"memory", p[1:513], 0},
	} {
		_, err := file.WriteAt(c.p, c.off)
		wantErr(t, "write, unaligned "+c.what, err, syscall.EINVAL)
		_, err = file.ReadAt(c.p, c.off)
		wantErr(t, "read, unaligned "+c.what, err, syscall.EINVAL)
		_, err = file.Readv([][]byte{p[:512], c.p}, c.off)
		wantErr(t, "readv, unaligned "+c.what, err, syscall.EINVAL)
	}
	m.SetDirectRefused(true)
	_, err = m.Open("f", Direct)
	wantErr(t, "Open", err, ErrDirectUnsupported)
}

// TestMemFileModel compares a file with a plain slice, through syncs and
// clones, so that no sharing of pages shows.
func TestMemFileModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		f, err := m.Open("f", Create)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		var want, durable []byte
		offset := func() int {
			near := rapid.SampledFrom([]int{0, pageBytes, chunkBytes, 2*chunkBytes + pageBytes}).Draw(t, "near")
			return max(near+rapid.IntRange(-5000, 5000).Draw(t, "off"), 0)
		}
		resize := func(n int) {
			if n <= len(want) {
				want = want[:n:n]
			} else {
				want = append(want, make([]byte, n-len(want))...)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				off, n := offset(), rapid.IntRange(1, 20000).Draw(t, "len")
				p := []byte(strings.Repeat(string(rune('a'+rapid.IntRange(0, 25).Draw(t, "byte"))), n))
				if _, err := f.WriteAt(p, int64(off)); err != nil {
					t.Fatal(err)
				}
				if off+n > len(want) {
					resize(off + n)
				}
				copy(want[off:], p)
			},
			"truncate": func(t *rapid.T) {
				n := offset()
				if err := f.Truncate(int64(n)); err != nil {
					t.Fatal(err)
				}
				resize(n)
			},
			"reserve": func(t *rapid.T) {
				off, n := offset(), 1+offset()
				if err := f.Preallocate(int64(off), int64(n)); err != nil {
					t.Fatal(err)
				}
				if off+n > len(want) {
					resize(off + n)
				}
			},
			"sync": func(t *rapid.T) {
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				durable = append([]byte(nil), want...)
			},
			"cut": func(t *rapid.T) { compare(t, m.CrashClone(CrashOptions{}), durable) },
			"":    func(t *rapid.T) { compare(t, m, want) },
		})
	})
}

func compare(t *rapid.T, m *Mem, want []byte) {
	f, err := m.Open("f", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	got := make([]byte, info.SizeBytes)
	if _, err := f.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%d bytes, want %d; they differ at %d", len(got), len(want), at)
	}
}

// TestMemConcurrent is for the race detector: writers, readers, and clones
// that go their own way.
func TestMemConcurrent(t *testing.T) {
	m := NewMem()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(worker)))
			name := fmt.Sprintf("f%d", worker%2)
			f, err := m.Open(name, Create)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			p := make([]byte, 3000)
			for i := range 100 {
				_, err1 := f.WriteAt(p, rng.Int64N(1<<20))
				_, err2 := f.ReadAt(p[:10], 0)
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
				}
				if i%10 != 0 {
					continue
				}
				err1 = errors.Join(f.Datasync(), m.SyncDir("."))
				c := m.CrashClone(CrashOptions{Seed: uint64(i), KeepBytes: 0.5, KeepNames: 0.5})
				g, err2 := c.Open(name, ReadWrite)
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
					return
				}
				_, err1 = g.WriteAt(p, rng.Int64N(1<<20)) // its own pages
				if err := errors.Join(err1, g.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkCrashClone: a store of 64 preallocated segments of 8 MiB, half
// full, with 1 MiB unsynced.
func BenchmarkCrashClone(b *testing.B) {
	m := NewMem()
	half := make([]byte, 4<<20)
	for i := range 64 {
		f, err := m.Open(fmt.Sprintf("f%02d", i), Create)
		if err != nil {
			b.Fatal(err)
		}
		err1 := f.Preallocate(0, 8<<20)
		_, err2 := f.WriteAt(half, 0)
		err3 := f.Sync()
		_, err4 := f.WriteAt(half[:16<<10], 4<<20)
		if err := errors.Join(err1, err2, err3, err4, f.Close()); err != nil {
			b.Fatal(err)
		}
	}
	if err := m.SyncDir("."); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m.CrashClone(CrashOptions{Seed: 1, KeepBytes: 0.5, TornSectorBytes: 512})
	}
}

// BenchmarkMemAppendSync: small appends to a large file, each synced.
func BenchmarkMemAppendSync(b *testing.B) {
	m := NewMem()
	f, err := m.Open("f", Create)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Preallocate(0, 1<<30); err != nil {
		b.Fatal(err)
	}
	p := make([]byte, 200)
	off := int64(0)
	for b.Loop() {
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		if err := f.Datasync(); err != nil {
			b.Fatal(err)
		}
		off = (off + 200) % (1 << 30)
	}
}
