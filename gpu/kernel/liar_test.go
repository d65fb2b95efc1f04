package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

// liar is a device in Go whose copies and kernels do what a test wants, at once.
// Its kernels take sums from package sums; they keep a piece's sum in its first
// accumulator.
type liar struct {
	mu      sync.Mutex
	mem     map[driver.DevicePtr][]byte // allocations
	next    driver.DevicePtr
	pinned  map[unsafe.Pointer]int64
	streams int
	modules int

	fail   map[string]error         // by method: what it returns
	log    string                   // of the compiler
	deaf   map[string]bool          // by method: it returns nil and does nothing
	finish func(p *lie)             // changes an outcome before it is written
	after  func(l *liar, p params)  // after the second launch
	block  map[string]chan struct{} // by method: it waits for this
}

// lie is the outcome of a piece.
type lie struct {
	index, count int
	address      uint64
	data         []byte
	want, sum    uint64
	status       uint32
}

func newLiar(t *testing.T) *liar {
	l := &liar{
		mem: map[driver.DevicePtr][]byte{}, next: 1 << 32, pinned: map[unsafe.Pointer]int64{},
		fail: map[string]error{}, deaf: map[string]bool{}, block: map[string]chan struct{}{},
	}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.mem)+len(l.pinned)+l.streams+l.modules != 0 {
			t.Errorf("left behind: %d allocations, %d pinned ranges, %d streams, %d modules", len(l.mem), len(l.pinned), l.streams, l.modules)
		}
	})
	return l
}

// enter is the start of a method: whether it works, and the error it returns.
func (l *liar) enter(method string) (works bool, err error) {
	l.mu.Lock()
	wait := l.block[method]
	l.mu.Unlock()
	if wait != nil {
		<-wait
	}
	l.mu.Lock()
	return !l.deaf[method] && l.fail[method] == nil, l.fail[method]
}

// at is n bytes of device memory. The test ends where they are not allocated.
func (l *liar) at(p driver.DevicePtr, n int64) []byte {
	for base, b := range l.mem {
		if p >= base && uint64(p)+uint64(n) <= uint64(base)+uint64(len(b)) {
			return b[p-base:][:n]
		}
	}
	panic(fmt.Sprintf("%d bytes at %#x are not allocated", n, uint64(p)))
}

func (l *liar) MemAlloc(n int64) (driver.DevicePtr, error) {
	works, err := l.enter("MemAlloc")
	defer l.mu.Unlock()
	if !works {
		return 0, err
	}
	p := l.next
	l.mem[p] = make([]byte, n)
	l.next += driver.DevicePtr(n+4095) &^ 4095
	return p, nil
}

func (l *liar) MemFree(p driver.DevicePtr) error {
	_, err := l.enter("MemFree")
	defer l.mu.Unlock()
	delete(l.mem, p)
	return err
}

func (l *liar) HostRegister(p unsafe.Pointer, n int64) error {
	works, err := l.enter("HostRegister")
	defer l.mu.Unlock()
	if works {
		l.pinned[p] = n
	}
	return err
}

func (l *liar) HostUnregister(p unsafe.Pointer) error {
	_, err := l.enter("HostUnregister")
	defer l.mu.Unlock()
	delete(l.pinned, p)
	return err
}

func (l *liar) StreamCreate() (driver.Stream, error) {
	works, err := l.enter("StreamCreate")
	defer l.mu.Unlock()
	if !works {
		return 0, err
	}
	l.streams++
	return 77, nil
}

func (l *liar) StreamDestroy(s driver.Stream) error {
	_, err := l.enter("StreamDestroy")
	defer l.mu.Unlock()
	l.streams--
	return err
}

func (l *liar) StreamSynchronize(s driver.Stream) error {
	_, err := l.enter("StreamSynchronize")
	l.mu.Unlock()
	return err
}

func (l *liar) CopyHtoDAsync(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream) error {
	works, err := l.enter("CopyHtoDAsync")
	defer l.mu.Unlock()
	l.mustBePinned(src, n)
	// The table is the only copy to memory that was just cleared.
	if works && !(l.deaf["table"] && allZero(l.at(dst, n))) {
		copy(l.at(dst, n), unsafe.Slice((*byte)(src), n))
	}
	return err
}

func (l *liar) CopyDtoHAsync(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream) error {
	works, err := l.enter("CopyDtoHAsync")
	defer l.mu.Unlock()
	l.mustBePinned(dst, n)
	if works {
		copy(unsafe.Slice((*byte)(dst), n), l.at(src, n))
	}
	return err
}

// mustBePinned ends the test where a copy is not between pinned memory.
func (l *liar) mustBePinned(p unsafe.Pointer, n int64) {
	for base, size := range l.pinned {
		if uintptr(p) >= uintptr(base) && uintptr(p)+uintptr(n) <= uintptr(base)+uintptr(size) {
			return
		}
	}
	panic(fmt.Sprintf("%d bytes of host memory are not pinned", n))
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (l *liar) MemsetD8Async(p driver.DevicePtr, v byte, n int64, s driver.Stream) error {
	works, err := l.enter("MemsetD8Async")
	defer l.mu.Unlock()
	if works {
		b := l.at(p, n)
		for i := range b {
			b[i] = v
		}
	}
	return err
}

const (
	liarLanes driver.Function = iota + 1
	liarFinish
)

func (l *liar) ModuleLoad(ptx []byte) (driver.Module, string, error) {
	works, err := l.enter("ModuleLoad")
	defer l.mu.Unlock()
	if !works {
		return 0, l.log, err
	}
	l.modules++
	return 5, l.log, nil
}

func (l *liar) ModuleUnload(m driver.Module) error {
	_, err := l.enter("ModuleUnload")
	defer l.mu.Unlock()
	l.modules--
	return err
}

func (l *liar) ModuleFunction(m driver.Module, name string) (driver.Function, error) {
	_, err := l.enter("ModuleFunction")
	defer l.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case l.fail[name] != nil:
		return 0, l.fail[name]
	case name == EntryLanes:
		return liarLanes, nil
	case name == EntryFinish:
		return liarFinish, nil
	}
	return 0, errors.New("no such function")
}

func (l *liar) Launch(f driver.Function, grid, block [3]uint32, param []byte, s driver.Stream) error {
	works, err := l.enter("Launch")
	defer l.mu.Unlock()
	if !works || l.deaf[map[driver.Function]string{liarLanes: EntryLanes, liarFinish: EntryFinish}[f]] {
		return err
	}
	le := binary.LittleEndian
	p := params{pieces: le.Uint64(param), accumulators: le.Uint64(param[8:]), got: le.Uint64(param[16:]), status: le.Uint64(param[24:]), count: le.Uint32(param[32:])}
	if len(param) != ParamBytes || le.Uint32(param[36:]) != 0 {
		return fmt.Errorf("parameter of %d bytes", len(param))
	}
	threads := grid[0] * block[0]
	if want := map[driver.Function]uint32{liarLanes: p.count * lanes, liarFinish: p.count}[f]; threads < want || grid[1]*grid[2]*block[1]*block[2] != 1 {
		return fmt.Errorf("%d threads for %d", threads, want)
	}
	for i := range int(p.count) {
		l.piece(f, p, i)
	}
	if f == liarFinish && l.after != nil {
		l.after(l, p)
	}
	return nil
}

func (l *liar) piece(f driver.Function, p params, i int) {
	le := binary.LittleEndian
	row := l.at(driver.DevicePtr(p.pieces)+driver.DevicePtr(i*PieceBytes), PieceBytes)
	address, length, want := le.Uint64(row), le.Uint32(row[8:]), le.Uint64(row[16:])
	acc := l.at(driver.DevicePtr(p.accumulators)+driver.DevicePtr(i*accBytes), accBytes)
	var data []byte
	if length > 0 {
		data = l.at(driver.DevicePtr(address), int64(length))
	}
	if f == liarLanes {
		le.PutUint64(acc, sums.Chunk(data))
		return
	}
	o := lie{index: i, count: int(p.count), address: address, data: data, want: want, sum: le.Uint64(acc), status: StatusMismatch}
	if o.sum == want {
		o.status = StatusMatch
	}
	if l.finish != nil {
		l.finish(&o)
	}
	le.PutUint64(l.at(driver.DevicePtr(p.got)+driver.DevicePtr(i*gotBytes), gotBytes), o.sum)
	le.PutUint32(l.at(driver.DevicePtr(p.status)+driver.DevicePtr(i*statusBytes), statusBytes), o.status)
}
