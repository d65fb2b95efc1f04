package uring

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFixedFiles(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		a, contentA := tempFile(t, 8192)
		b, contentB := tempFile(t, 4096)
		copy(contentB, "another")
		if _, err := b.WriteAt(contentB, 0); err != nil {
			t.Fatal(err)
		}
		if err := r.RegisterFiles(2); err != nil {
			t.Fatal(err)
		}
		if err := r.RegisterFiles(2); !errors.Is(err, unix.EBUSY) {
			t.Errorf("a second table: %v, want %v", err, unix.EBUSY)
		}
		p := offHeap(t, 4096)
		read := func(slot int) int32 { return one(t, r, Read(slot, p, 0).WithFixedFile(slot)) }
		if n := read(0); n != -int32(unix.EBADF) {
			t.Errorf("empty slot: %d", n)
		}
		update := func(slot, fd int) {
			t.Helper()
			if err := r.UpdateFile(slot, fd); err != nil {
				t.Fatal(err)
			}
		}
		update(0, int(a.Fd()))
		update(1, int(b.Fd()))
		if n := read(0); n != 4096 || !bytes.Equal(p, contentA[:4096]) {
			t.Errorf("slot 0: %d, or wrong bytes", n)
		}
		if n := read(1); n != 4096 || !bytes.Equal(p, contentB) {
			t.Errorf("slot 1: %d, or wrong bytes", n)
		}
		// A slot holds its file beyond the descriptor ...
		_ = b.Close()
		if n := read(1); n != 4096 || !bytes.Equal(p, contentB) {
			t.Errorf("slot of a closed file: %d, or wrong bytes", n)
		}
		// ... until it is given another, or none.
		update(1, int(a.Fd()))
		if n := read(1); n != 4096 || !bytes.Equal(p, contentA[:4096]) {
			t.Errorf("slot 1 anew: %d, or wrong bytes", n)
		}
		update(0, -1)
		if n := read(0); n != -int32(unix.EBADF) {
			t.Errorf("slot 0 emptied: %d", n)
		}
		if err := r.UpdateFile(2, int(a.Fd())); err == nil {
			t.Error("a slot outside the table was taken")
		}
		if err := r.UnregisterFiles(); err != nil {
			t.Fatal(err)
		}
		if n := read(1); n != -int32(unix.EBADF) {
			t.Errorf("slot without a table: %d", n)
		}
	})
}

func TestFixedBuffers(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		f, content := tempFile(t, 64<<10)
		fd := int(f.Fd())
		a, b, other := offHeap(t, 16<<10), offHeap(t, 32<<10), offHeap(t, 4096)
		if err := r.RegisterBuffers([][]byte{a, b}); err != nil {
			t.Fatal(err)
		}
		if n := one(t, r, ReadFixed(fd, b[4096:8192], 5000, 1)); n != 4096 || !bytes.Equal(b[4096:8192], content[5000:9096]) {
			t.Errorf("read: %d, or wrong bytes", n)
		}
		if n := one(t, r, WriteFixed(fd, b[4096:8192], 0, 1)); n != 4096 {
			t.Errorf("write: %d", n)
		}
		copy(content, content[5000:9096])
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("the file has other bytes (%v)", err)
		}
		for name, e := range map[string]SQE{
			"not of that buffer": ReadFixed(fd, other, 0, 0),
			"past its end":       ReadFixed(fd, a[:len(a):len(a)], 0, 1),
			"no such buffer":     ReadFixed(fd, a, 0, 2),
		} {
			if n := one(t, r, e); n != -int32(unix.EFAULT) && n != -int32(unix.EINVAL) {
				t.Errorf("%s: %d, want a fault", name, n)
			}
		}
		if err := r.UnregisterBuffers(); err != nil {
			t.Fatal(err)
		}
		if err := r.UnregisterBuffers(); err == nil {
			t.Error("buffers were given back twice")
		}
	})
}

func TestRegisterRefuses(t *testing.T) {
	r := newRing(t, 8)
	for name, err := range map[string]error{
		"no files":     r.RegisterFiles(0),
		"too many":     r.RegisterFiles(1 << 20),
		"no buffers":   r.RegisterBuffers(nil),
		"many buffers": r.RegisterBuffers(make([][]byte, 1<<17)),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, ErrInvalid)
		}
	}
	if err := r.UnregisterFiles(); err == nil {
		t.Error("files were given back that are not there")
	}
}

func TestProbe(t *testing.T) {
	r := newRing(t, 8)
	ops, err := r.Probe()
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("the kernel can not be asked for its operations: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !ops.Has(OpNop, OpReadv, OpWritev, OpFsync, OpReadFixed, OpWriteFixed, OpAsyncCancel, OpRead, OpWrite) {
		t.Error("operations of 5.6 are missing")
	}
	if ops.Has(OpNop, 255) {
		t.Error("operation 255 exists")
	}
}
