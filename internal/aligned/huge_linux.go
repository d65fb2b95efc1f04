package aligned

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages. A kernel without them refuses, which costs
// speed and nothing else.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
