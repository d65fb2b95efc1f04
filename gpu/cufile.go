package gpu

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sealstone/sealstone/gpu/driver"
)

// fileLibrary is what a Device asks of cuFile; a *driver.CuFile is one.
type fileLibrary interface {
	cuFileSettings
	DriverClose(*driver.Context) error
	HandleRegister(c *driver.Context, fd int) (driver.Handle, error)
	HandleDeregister(c *driver.Context, h driver.Handle) error
	BufRegister(c *driver.Context, p driver.DevicePtr, n int64) error
	BufDeregister(c *driver.Context, p driver.DevicePtr) error
	Read(c *driver.Context, h driver.Handle, base driver.DevicePtr, n, fileOffset, bufOffset int64) (int64, error)
}

var _ fileLibrary = (*driver.CuFile)(nil)

// fileDriver is cuFile in this process, opened when a route is first allowed.
type fileDriver struct {
	load func() (fileLibrary, error)

	mu      sync.Mutex
	tried   bool
	err     error // why it cannot be used
	lib     fileLibrary
	opened  bool   // by us, so that it is ours to close
	logDir  string // of cuFile's log
	ourLogs bool   // made by us, so that it is ours to remove
}

// noteOpen remembers whether DriverOpen succeeded, which OpenStrict does not
// tell.
type noteOpen struct {
	fileLibrary
	opened *bool
}

func (n noteOpen) DriverOpen(c *driver.Context) error {
	err := n.fileLibrary.DriverOpen(c)
	*n.opened = err == nil
	return err
}

// openFiles opens cuFile in its strict mode, once.
func (d *Device) openFiles() error {
	f := &d.files
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried {
		return f.err
	}
	f.tried = true
	f.err = d.openFilesLocked(f)
	return f.err
}

func (d *Device) openFilesLocked(f *fileDriver) error {
	lib, err := f.load()
	if err != nil {
		return err
	}
	f.lib = lib
	f.logDir = d.o.CuFileLogDir
	if f.logDir == "" {
		if f.logDir, err = os.MkdirTemp("", "sealstone-cufile-"); err != nil {
			return fmt.Errorf("gpu: a directory for cuFile's log: %w", err)
		}
		f.ourLogs = true
	}
	opened, dir := new(bool), f.logDir
	err = d.fileCall("cuFileDriverOpen", func() error { return OpenStrict(noteOpen{lib, opened}, d.context, dir) })
	if isHung(err) {
		f.ourLogs = false // it may still be written to
		return err
	}
	f.opened = *opened
	return err
}

// close undoes openFiles.
func (f *fileDriver) close(d *Device) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.opened {
		f.opened = false
		err = d.fileCall("cuFileDriverClose", func() error { return f.lib.DriverClose(d.context) })
	}
	if f.ourLogs {
		f.ourLogs = false
		err = errors.Join(err, os.RemoveAll(f.logDir))
	}
	return err
}

// fileCall makes a call of cuFile, which may block for ever in the kernel, and
// waits for it no longer than Options.HangTimeout; then the answer is ErrHung
// and f still runs. What f uses must be its own.
func (d *Device) fileCall(what string, f func() error) error {
	if err := d.lostErr(); err != nil {
		return err
	}
	if returned, err := d.inTime(f); returned {
		return d.judge(err)
	}
	return fmt.Errorf("%w: %s within %v", ErrHung, what, d.o.HangTimeout)
}

func isHung(err error) bool { return errors.Is(err, ErrHung) }
