package fsmatrix

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// opKind is what a file system is asked to do with a file.
type opKind string

const (
	opOpen  opKind = "open"
	opRead  opKind = "read"
	opWrite opKind = "write"
	opSync  opKind = "sync"
)

// op is one request.
type op struct {
	kind   opKind
	name   string // within the file system
	direct bool   // past the page cache
	off    int64
	length int
}

// segment says whether the request is about bytes of blocks.
func (o op) segment() bool { return strings.HasSuffix(o.name, ".seg") }

// scratch says whether it is about a probe's file.
func (o op) scratch() bool { return strings.Contains(o.name, "robe") }

// verdict is what becomes of a request; the zero value is the honest answer.
type verdict struct {
	errno syscall.Errno
	// wait holds the answer back until it is closed.
	wait <-chan struct{}
	// lie fills a read in instead of the file's bytes.
	lie func(f *faultyFile, p []byte, off int64)
	// drop says that a write was done and does nothing.
	drop bool
}

// faulty is a file system that hands everything on to a directory, but for
// what its rule says.
type faulty struct {
	at, under string
	server    *fuse.Server
	rule      atomic.Pointer[func(op) verdict]
	lied      atomic.Int64 // answers other than honest ones
}

// mountFaulty mounts one over memory, for the length of the test. The kernel
// keeps no pages of its files unless cached.
func mountFaulty(t *testing.T, cached bool) *faulty {
	t.Helper()
	needRoot(t)
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	// Releases of files may be lost in the unmount, so what lies below is
	// only detached.
	f := &faulty{under: mountUntil(t, unix.MNT_DETACH, "tmpfs", "tmpfs", "size=256m,mode=755"), at: publicDir(t)}
	f.be(nil)
	root := &fs.LoopbackRoot{Path: f.under}
	node := &faultyNode{LoopbackNode: &fs.LoopbackNode{RootData: root}, f: f, cached: cached}
	root.RootNode = node
	server, err := fs.Mount(f.at, node, &fs.Options{MountOptions: fuse.MountOptions{
		FsName: "faulty", Name: "faulty", DirectMountStrict: true, MaxWrite: 256 << 10,
	}})
	if err != nil {
		t.Skipf("FUSE can not be mounted: %v", err)
	}
	f.server = server
	t.Cleanup(func() {
		f.be(nil)
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount FUSE: %v", err)
			_ = unix.Unmount(f.at, unix.MNT_DETACH)
		}
		server.Wait()
	})
	return f
}

// counted announces a fault to the fault matrix. It is survived if the test
// does not fail.
func counted(t *testing.T, name string) *faulttest.Fault {
	t.Helper()
	fault := faulttest.New(t).Try(name)
	t.Cleanup(func() {
		if !t.Failed() {
			fault.Survive()
		}
	})
	return fault
}

// counted announces a fault that happened if this file system has answered
// other than honestly by the end of the test.
func (f *faulty) counted(t *testing.T, name string) {
	t.Helper()
	before := f.lied.Load()
	fault := counted(t, name)
	t.Cleanup(func() {
		if f.lied.Load() > before {
			fault.Fire()
		}
	})
}

// be sets the rule; nil is honest.
func (f *faulty) be(rule func(op) verdict) {
	if rule == nil {
		rule = func(op) verdict { return verdict{} }
	}
	f.rule.Store(&rule)
}

// judge asks the rule, and waits where it says so.
func (f *faulty) judge(o op) verdict {
	v := (*f.rule.Load())(o)
	if v.errno != 0 || v.wait != nil || v.lie != nil || v.drop {
		f.lied.Add(1)
	}
	if v.wait != nil {
		<-v.wait
	}
	return v
}

// faultyNode is a file or directory.
type faultyNode struct {
	*fs.LoopbackNode
	f      *faulty
	cached bool
}

func (n *faultyNode) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	return &faultyNode{LoopbackNode: child.(*fs.LoopbackNode), f: n.f, cached: n.cached}
}

func (n *faultyNode) path() string { return n.Path(n.RootData.RootNode.EmbeddedInode()) }

func (n *faultyNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	direct := flags&unix.O_DIRECT != 0
	if v := n.f.judge(op{kind: opOpen, name: n.path(), direct: direct}); v.errno != 0 {
		return nil, 0, v.errno
	}
	h, _, errno := n.LoopbackNode.Open(ctx, flags&^unix.O_DIRECT)
	if errno != 0 {
		return nil, 0, errno
	}
	file, fuseFlags := n.wrap(h, n.path(), direct)
	return file, fuseFlags, 0
}

func (n *faultyNode) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	path, direct := filepath.Join(n.path(), name), flags&unix.O_DIRECT != 0
	if v := n.f.judge(op{kind: opOpen, name: path, direct: direct}); v.errno != 0 {
		return nil, nil, 0, v.errno
	}
	inode, h, _, errno := n.LoopbackNode.Create(ctx, name, flags&^unix.O_DIRECT, mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	file, fuseFlags := n.wrap(h, path, direct)
	return inode, file, fuseFlags, 0
}

func (n *faultyNode) wrap(h fs.FileHandle, name string, direct bool) (fs.FileHandle, uint32) {
	file := &faultyFile{LoopbackFile: h.(*fs.LoopbackFile), f: n.f, name: name, direct: direct}
	if n.cached {
		return file, 0
	}
	return file, fuse.FOPEN_DIRECT_IO
}

// faultyFile is an open file.
type faultyFile struct {
	*fs.LoopbackFile
	f      *faulty
	name   string
	direct bool
}

// PassthroughFd keeps the kernel from going past the rule.
func (h *faultyFile) PassthroughFd() (int, bool) { return 0, false }

func (h *faultyFile) Read(ctx context.Context, p []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	v := h.f.judge(op{opRead, h.name, h.direct, off, len(p)})
	switch {
	case v.errno != 0:
		return nil, v.errno
	case v.lie != nil:
		v.lie(h, p, off)
		return fuse.ReadResultData(p), 0
	}
	n, errno := h.honest(p, off)
	return fuse.ReadResultData(p[:n]), errno
}

// honest reads what the file holds.
func (h *faultyFile) honest(p []byte, off int64) (int, syscall.Errno) {
	r, errno := h.LoopbackFile.Read(context.Background(), p, off)
	if errno != 0 {
		return 0, errno
	}
	got, status := r.Bytes(p)
	if !status.Ok() {
		return 0, syscall.Errno(status)
	}
	return copy(p, got), 0
}

func (h *faultyFile) Write(ctx context.Context, p []byte, off int64) (uint32, syscall.Errno) {
	v := h.f.judge(op{opWrite, h.name, h.direct, off, len(p)})
	switch {
	case v.errno != 0:
		return 0, v.errno
	case v.drop:
		return uint32(len(p)), 0
	}
	return h.LoopbackFile.Write(ctx, p, off)
}

func (h *faultyFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if v := h.f.judge(op{kind: opSync, name: h.name, direct: h.direct}); v.errno != 0 {
		return v.errno
	}
	return h.LoopbackFile.Fsync(ctx, flags)
}

// The lies, each a way in which storage has been seen to answer.

// zeros is a file as it was before it was written.
func zeros(_ *faultyFile, p []byte, _ int64) { clear(p) }

// shifted is a neighbour's bytes.
func shifted(h *faultyFile, p []byte, off int64) {
	clear(p)
	_, _ = h.honest(p, off+4096)
}

// flipped is one bit of rot.
func flipped(h *faultyFile, p []byte, off int64) {
	n, _ := h.honest(p, off)
	clear(p[n:])
	p[len(p)/2] ^= 4
}

// halved is a tail that never came.
func halved(h *faultyFile, p []byte, off int64) {
	_, _ = h.honest(p, off)
	clear(p[len(p)/2:])
}
