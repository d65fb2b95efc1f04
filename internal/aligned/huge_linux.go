package aligned

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for huge pages. A kernel without them refuses, which costs
// speed and nothing else.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

// adviseSmall asks for small pages where huge ones would go over a limit.
func adviseSmall(mem []byte) { _ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE) }

// thpRefusal is why the kernel would not give transparent huge pages of 2 MiB
// on request; empty if it would.
var thpRefusal = sync.OnceValue(func() string { return thpRefusalIn("/sys/kernel/mm/transparent_hugepage") })

// thpRefusalIn reads the kernel's settings, see
// https://docs.kernel.org/admin-guide/mm/transhuge.html.
func thpRefusalIn(dir string) string {
	enabled, err := os.ReadFile(dir + "/enabled")
	if err != nil {
		return "the kernel has no transparent huge pages: " + err.Error()
	}
	if strings.Contains(string(enabled), "[never]") {
		return "transparent huge pages are set to never in " + dir + "/enabled; set madvise"
	}
	size, err := os.ReadFile(dir + "/hpage_pmd_size")
	if err == nil && strings.TrimSpace(string(size)) != fmt.Sprint(HugePageBytes) {
		return "a huge page of this kernel has " + strings.TrimSpace(string(size)) + " bytes"
	}
	return ""
}

// mapHugeTLB maps sizeBytes, a multiple of HugePageBytes, from the pages set
// apart by the administrator, and fills them in. The mapping reserves them, but
// a cgroup may refuse them later, which would end the process at the first
// touch; filling in gets an error instead.
func mapHugeTLB(sizeBytes int) ([]byte, error) {
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(sizeBytes), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of hugetlb pages: %w", sizeBytes, err)
	}
	mem := unsafe.Slice((*byte)(base), sizeBytes)
	if err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE); err != nil {
		unmapMemory(mem)
		return nil, fmt.Errorf("fill in %d bytes of hugetlb pages: %w", sizeBytes, err)
	}
	return mem, nil
}

// populate has the kernel fill in the pages of mem, writable, without changing
// bytes that are there. It says false where the kernel cannot (before 5.14):
// the first touch then does it, page by page.
func populate(mem []byte) (bool, error) {
	for {
		err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.EINVAL):
			return false, nil
		default:
			return false, fmt.Errorf("aligned: no memory for %d bytes: %w", len(mem), err)
		}
	}
}

// returnPages gives the memory behind mem back to the kernel; the addresses
// stay, and read as zeros. It fails where the process has locked its memory.
func returnPages(mem []byte) error { return unix.Madvise(mem, unix.MADV_DONTNEED) }
