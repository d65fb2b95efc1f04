package aligned

import (
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nodesDir lists the memory nodes of the machine.
const nodesDir = "/sys/devices/system/node"

// nodeCount is how many memory nodes are online, at least 1; only their number
// counts, to leave all of this alone where there is one.
func nodeCount(dir string) int {
	list, err := os.ReadFile(dir + "/online") // such as 0-1,4
	if err != nil {
		return 1
	}
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(string(list)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, errA := strconv.ParseUint(first, 10, 16)
		b := a
		var errB error
		if isRange {
			b, errB = strconv.ParseUint(last, 10, 16)
		}
		if errA != nil || errB != nil || b < a {
			return 1
		}
		n += int(b-a) + 1
	}
	return n
}

// currentNode is the memory node of the processor that runs this thread now.
func currentNode() int {
	var cpu, node uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0); errno != 0 {
		return 0
	}
	return int(node)
}

// preferNode has the pages of mem come from a node as long as it has some. A
// refusal (a container without the right) costs speed and nothing else.
func preferNode(mem []byte, node int) error {
	const bitsPerWord = 64
	mask := make([]uint64, node/bitsPerWord+1)
	mask[node/bitsPerWord] = 1 << (node % bitsPerWord)
	// The kernel takes one bit less than it is told: mbind(2).
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)),
		unix.MPOL_PREFERRED, uintptr(unsafe.Pointer(unsafe.SliceData(mask))), uintptr(len(mask)*bitsPerWord+1), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
