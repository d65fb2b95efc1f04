package gpu

import (
	"fmt"
	"io"
	"os"

	"github.com/sealstone/sealstone/gpu/driver"
)

// fakeFiles is cuFile on a fakeGPU.
type fakeFiles struct {
	g *fakeGPU
	// read, if set, does a read instead: into dst, from the file at offset.
	read func(dst []byte, file io.ReaderAt, offset int64) (int64, error)
	on   map[driver.BoolParameter]bool
}

func (f *fakeFiles) DriverOpen(*driver.Context) error {
	if err := f.g.enter("open"); err != nil {
		return err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	f.g.opened++
	return nil
}

func (f *fakeFiles) DriverClose(*driver.Context) error {
	if err := f.g.enter("close"); err != nil {
		return err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	f.g.opened--
	return nil
}

func (f *fakeFiles) Parameter(p driver.BoolParameter) (bool, error)          { return f.on[p], nil }
func (f *fakeFiles) SetParameter(driver.BoolParameter, bool) error           { return nil }
func (f *fakeFiles) SetStringParameter(driver.StringParameter, string) error { return nil }

func (f *fakeFiles) HandleRegister(_ *driver.Context, fd int) (driver.Handle, error) {
	if err := f.g.enter("handle"); err != nil {
		return 0, err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	f.g.next++
	f.g.handles[driver.Handle(f.g.next)] = fd
	return driver.Handle(f.g.next), nil
}

func (f *fakeFiles) HandleDeregister(_ *driver.Context, h driver.Handle) error {
	if err := f.g.enter("unhandle"); err != nil {
		return err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	delete(f.g.handles, h)
	return nil
}

func (f *fakeFiles) BufRegister(_ *driver.Context, p driver.DevicePtr, n int64) error {
	if err := f.g.enter("buf"); err != nil {
		return err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	if p%landingUnitBytes != 0 {
		f.g.t.Errorf("registered at %#x, which is not aligned", p)
	}
	f.g.registered[p] = n
	return nil
}

func (f *fakeFiles) BufDeregister(_ *driver.Context, p driver.DevicePtr) error {
	if err := f.g.enter("unbuf"); err != nil {
		return err
	}
	f.g.mu.Lock()
	defer f.g.mu.Unlock()
	delete(f.g.registered, p)
	return nil
}

func (f *fakeFiles) Read(_ *driver.Context, h driver.Handle, base driver.DevicePtr, n, fileOffset, bufOffset int64) (int64, error) {
	if err := f.g.enter("read"); err != nil {
		return 0, err
	}
	f.g.mu.Lock()
	fd, ok := f.g.handles[h]
	if length := f.g.registered[base]; !ok || bufOffset+n > length || bufOffset%landingUnitBytes != 0 {
		f.g.t.Errorf("read of %d bytes to %#x+%d by handle %d: not registered or not aligned", n, base, bufOffset, h)
	}
	dst := f.g.at(base+driver.DevicePtr(bufOffset), n)
	f.g.mu.Unlock()
	// Without O_DIRECT, whatever the file system can.
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if f.read != nil {
		return f.read(dst, file, fileOffset)
	}
	return readWhole(dst, file, fileOffset)
}

// readWhole reads as cuFile does: at the end of the file less comes.
func readWhole(dst []byte, file io.ReaderAt, offset int64) (int64, error) {
	n, err := file.ReadAt(dst, offset)
	if err == io.EOF {
		err = nil
	}
	return int64(n), err
}
