package aligned

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fakeNodes is a machine with these memory nodes.
func fakeNodes(t *testing.T, online string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "online"), []byte(online), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNodeCount(t *testing.T) {
	for online, want := range map[string]int{
		"0\n": 1, "0-1\n": 2, "0-3,8\n": 5, "0,2": 2, "": 1, "x": 1, "3-1": 1, "0-": 1, "0-1,,": 1, "99999999": 1,
	} {
		if got := nodeCount(fakeNodes(t, online)); got != want {
			t.Errorf("%q: %d nodes, want %d", online, got, want)
		}
	}
	if got := nodeCount(filepath.Join(t.TempDir(), "absent")); got != 1 {
		t.Errorf("without a list: %d nodes", got)
	}
}

// TestPreferNode: the kernel took the node as it was meant.
func TestPreferNode(t *testing.T) {
	b, err := Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	node := currentNode()
	if err := preferNode(b.Bytes(), node); err != nil {
		t.Skipf("mbind is refused here: %v", err)
	}
	var mode int32
	mask := make([]uint64, 16)
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask[0])),
		uintptr(len(mask)*64+1), uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes()))), unix.MPOL_F_ADDR, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if mode != unix.MPOL_PREFERRED || mask[node/64] != 1<<(node%64) {
		t.Errorf("policy %d, nodes %x, want %d of node %d", mode, mask[0], unix.MPOL_PREFERRED, node)
	}
	if err := preferNode(b.Bytes(), 1000); err == nil {
		t.Error("a node that no machine has is taken")
	}
}

// TestPoolOfTwoNodes: each node's requests find their own slab, until the
// limit leaves no room for one.
func TestPoolOfTwoNodes(t *testing.T) {
	node := 0
	p := New(Options{LimitBytes: 8 << 20, IdleInterval: -1, sysNodes: fakeNodes(t, "0-1"), node: func() int { return node }})
	defer mustClose(t, p)
	a := mustGet(t, p, 1<<20)
	node = 1
	b := mustGet(t, p, 1<<20)
	if a.slab == b.slab || a.slab.node != 0 || b.slab.node != 1 {
		t.Errorf("buffers of two nodes lie on nodes %d and %d", a.slab.node, b.slab.node)
	}
	b.Free()
	if b = mustGet(t, p, 1<<20); b.slab.node != 1 {
		t.Error("a request went past the free memory of its node")
	}
	first := a.slab
	big := mustGet(t, p, 5<<20)
	node = 0
	c := mustGet(t, p, 1<<20)
	if c.slab != first {
		t.Error("warm memory of the own node is not used")
	}
	for _, x := range []*Buffer{a, b, c, big} {
		x.Free()
	}
	node = 2 // no such slab, and all memory is on other nodes
	all := mustGet(t, p, 7<<20)
	if inUse, cached, limit := p.Stats(); inUse+cached > limit {
		t.Errorf("%d and %d of %d bytes", inUse, cached, limit)
	}
	all.Free()
}
