package aligned

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// hugeBytes is how much of the mappings that overlap mem the kernel holds in
// huge pages, and how much it holds at all, from /proc/self/smaps.
func hugeBytes(t testing.TB, mem []byte) (huge, resident int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skipf("no smaps: %v", err)
	}
	defer f.Close()
	from := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	within := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var lo, hi uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &lo, &hi); n == 2 {
			within = lo < from+uintptr(len(mem)) && from < hi
			continue
		}
		name, value, _ := strings.Cut(lines.Text(), ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if !within || err != nil {
			continue
		}
		switch name {
		case "AnonHugePages", "Private_Hugetlb":
			huge += kib << 10
		}
		switch name {
		case "Rss", "Private_Hugetlb":
			resident += kib << 10
		}
	}
	return huge, resident
}

// freeHugePages says whether the kernel has at least n pieces of 2 MiB (order 9
// and above of 4 KiB pages).
func freeHugePages(t *testing.T, n int) bool {
	t.Helper()
	info, err := os.ReadFile("/proc/buddyinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(info)) {
		fields := strings.Fields(line)
		for order := 9; order+4 < len(fields); order++ {
			free, _ := strconv.Atoi(fields[order+4])
			n -= free << (order - 9)
		}
	}
	return n <= 0
}

// TestHugePagesAreThere looks at what the kernel really gave, filled in before
// the first access, and that it takes it back.
func TestHugePagesAreThere(t *testing.T) {
	p := New(Options{LimitBytes: 32 << 20, IdleInterval: -1, KeepBytes: -1})
	defer mustClose(t, p)
	if why := p.Memory().HugeReason; why != "" {
		t.Skipf("no transparent huge pages: %s", why)
	}
	if !freeHugePages(t, 64) {
		t.Skip("the kernel has not enough memory in pieces of 2 MiB")
	}
	b, keep := mustGet(t, p, 9<<20), mustGet(t, p, 1<<20)
	if m := p.Memory(); m.Huge != HugeTHP || m.CachedBytes+m.InUseBytes != 10<<20 {
		t.Errorf("%+v", m)
	}
	if huge, resident := hugeBytes(t, b.slab.mem); huge != 10<<20 || resident != 10<<20 {
		t.Errorf("%d bytes are there, %d in huge pages, want %d", resident, huge, 10<<20)
	}
	mem := keep.slab.mem
	b.Free()
	p.trimIdle()
	p.trimIdle()
	if huge, resident := hugeBytes(t, mem); huge != 2<<20 || resident != 2<<20 {
		t.Errorf("%d bytes are there, %d in huge pages, want %d", resident, huge, 2<<20)
	}
	keep.Free()
}

// TestSmallPagesAtTheLimit: the last block below the limit is not made a huge
// page that goes over it.
func TestSmallPagesAtTheLimit(t *testing.T) {
	p := New(Options{LimitBytes: 3 << 20, IdleInterval: -1})
	defer mustClose(t, p)
	b := mustGet(t, p, 5<<19) // 2.5 MiB
	for i := range b.Bytes() {
		b.Bytes()[i] = 1
	}
	if _, resident := hugeBytes(t, b.slab.mem); resident > 3<<20 {
		t.Errorf("%d bytes are there, limit %d", resident, 3<<20)
	}
	b.Free()
}

// setHugeTLB changes how many pages the administrator set apart.
func setHugeTLB(t *testing.T, n int) {
	t.Helper()
	const name = "/proc/sys/vm/nr_hugepages"
	old, err := os.ReadFile(name)
	if err != nil {
		t.Skipf("no hugetlb: %v", err)
	}
	if strings.TrimSpace(string(old)) != "0" {
		t.Skip("hugetlb pages are set apart for somebody else")
	}
	if err := os.WriteFile(name, []byte(strconv.Itoa(n)), 0o600); err != nil {
		t.Skipf("may not set hugetlb pages apart: %v", err)
	}
	t.Cleanup(func() { _ = os.WriteFile(name, old, 0o600) })
	if got, _ := os.ReadFile(name); strings.TrimSpace(string(got)) != strconv.Itoa(n) {
		t.Skipf("the kernel set %s hugetlb pages apart instead of %d", strings.TrimSpace(string(got)), n)
	}
}

// TestHugeTLB takes what was set apart, half a slab where there is no whole
// one, and goes on with other pages when that is used up.
func TestHugeTLB(t *testing.T) {
	setHugeTLB(t, 12)
	p := New(Options{LimitBytes: 64 << 20, IdleInterval: -1, HugeTLB: true})
	a := mustGet(t, p, 9<<20)
	if m := p.Memory(); m.Huge != HugeTLB || m.MappedBytes != 16<<20 || m.InUseBytes+m.CachedBytes != 16<<20 {
		t.Errorf("%+v", m)
	}
	if huge, _ := hugeBytes(t, a.slab.mem); huge != 16<<20 {
		t.Errorf("%d bytes in huge pages", huge)
	}
	b := mustGet(t, p, 9<<20) // four pages are left
	if b.slab.kind == HugeTLB || !strings.Contains(p.Memory().HugeReason, "cannot allocate memory") {
		t.Errorf("the second on %s pages, %q", b.slab.kind, p.Memory().HugeReason)
	}
	mark(a.Bytes(), 1)
	mark(b.Bytes(), 2)
	if !marked(a.Bytes(), 1) || !marked(b.Bytes(), 2) {
		t.Error("buffers disturb each other")
	}
	a.Free()
	b.Free()
	p.trimIdle()
	p.trimIdle()
	mustClose(t, p)
	if m := p.Memory(); m.Slabs != 0 || m.CachedBytes != 0 {
		t.Errorf("%+v", m)
	}
}

// TestHugeTLBRefused falls back without an error and says why.
func TestHugeTLBRefused(t *testing.T) {
	setHugeTLB(t, 0)
	p := New(Options{LimitBytes: 16 << 20, HugeTLB: true})
	mustGet(t, p, 1<<20).Free()
	if m := p.Memory(); m.Huge == HugeTLB || !strings.Contains(m.HugeReason, "hugetlb") {
		t.Errorf("%+v", m)
	}
	mustClose(t, p)
}

func TestTHPRefusal(t *testing.T) {
	for _, c := range []struct{ enabled, size, want string }{
		{"always [madvise] never\n", "2097152\n", ""},
		{"[always] madvise never\n", "2097152\n", ""},
		{"always madvise [never]\n", "2097152\n", "never"},
		{"always [madvise] never\n", "536870912\n", "536870912 bytes"},
		{"always [madvise] never\n", "", ""},
		{"", "", "has no transparent huge pages"},
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{"enabled": c.enabled, "hpage_pmd_size": c.size} {
			if content == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := thpRefusalIn(dir); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%q, %q: %q, want %q", c.enabled, c.size, got, c.want)
		}
	}
}
