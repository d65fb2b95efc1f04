package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// duplicate takes a descriptor of our own of the caller's file.
func duplicate(fd int) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return os.NewFile(uintptr(own), "region"), nil
}

// newShared makes and maps a memfd. It is sealed, so that not even this process
// can cut it short under the server.
func newShared(sizeBytes int64) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate("sealstone", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "sealstone")
	mem, err := mapShared(fd, sizeBytes)
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, mem, nil
}

func mapShared(fd int, sizeBytes int64) ([]byte, error) {
	if err := unix.Ftruncate(fd, sizeBytes); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, int(sizeBytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a wish
	return mem, nil
}

func unmapShared(mem []byte) { _ = unix.Munmap(mem) }

// doWithFile is do with a descriptor beside the command's bytes.
func (c *conn) doWithFile(ctx context.Context, cmd *command, file *os.File, read func(*answers) error) error {
	u, ok := c.net.(*net.UnixConn)
	if !ok {
		return errors.New("client: no Unix socket")
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("client: region: %w", err)
	}
	end, _ := ctx.Deadline()
	if end.IsZero() {
		end = time.Now().Add(forgetTimeout)
	}
	_ = c.net.SetDeadline(end)
	c.in.lines = 0
	var text []byte
	for _, p := range cmd.buffers() {
		text = append(text, p...)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var n int
		n, _, failed = u.WriteMsgUnix(text, unix.UnixRights(int(fd)), nil)
		if failed == nil && n < len(text) {
			failed = io.ErrShortWrite
		}
	})
	if err = errors.Join(err, failed); err != nil {
		c.spent = true
		err = unreachable("send", err)
	} else {
		err = c.readAnswer(read)
	}
	if err != nil && c.spent && errors.Is(err, os.ErrDeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
