package kernel

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testUUID = [16]byte{0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8}

func TestLoadProvesAnHonestDevice(t *testing.T) {
	l := newLiar(t)
	k, err := load(context.Background(), l, testUUID)
	if err != nil {
		t.Fatal(err)
	}
	p := k.Proof()
	vectors, _ := vectorArena()
	if p.Vectors != proofRounds*len(vectors) || p.Wrong != len(vectors) {
		t.Errorf("%d vectors, %d wrong; want %d and, each vector once, %d", p.Vectors, p.Wrong, proofRounds*len(vectors), len(vectors))
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := k.Verify(1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Verify after Close: %v", err)
	}
}

// A device that says match of everything.
func sayMatch(o *lie) { o.status = StatusMatch }

// Every way to answer without having looked is refused, each at its step.
func TestLoadRefusesALiar(t *testing.T) {
	cases := []struct {
		name string
		make func(l *liar)
		step Step
		text string
	}{
		{"nothing runs", func(l *liar) { l.deaf["Launch"] = true }, StepVectors, "status 0"},
		{"the first launch does not run", func(l *liar) { l.deaf[EntryLanes] = true }, StepVectors, "kernel computed"},
		{"the second launch does not run", func(l *liar) { l.deaf[EntryFinish] = true }, StepVectors, "status 0"},
		{"all match, sums as they are", func(l *liar) { l.finish = sayMatch }, StepVectors, "status 1"},
		{"all match, sums as wanted", func(l *liar) {
			l.finish = func(o *lie) { o.sum = o.want; o.status = StatusMatch }
		}, StepVectors, "kernel computed"},
		{"none matches", func(l *liar) { l.finish = func(o *lie) { o.status = StatusMismatch } }, StepVectors, "status 2"},
		{"none matches, sums are wrong", func(l *liar) {
			l.finish = func(o *lie) { o.sum += 12345; o.status = StatusMismatch }
		}, StepVectors, "kernel computed"},
		{"one sum is wrong where it mismatches", func(l *liar) {
			l.finish = func(o *lie) {
				if o.index == o.count-2 && o.status == StatusMismatch {
					o.sum += 12345 // no power of two: not the wanted sum
				}
			}
		}, StepVectors, "kernel computed"},
		{"the last one is left out", func(l *liar) {
			l.finish = func(o *lie) {
				if o.index == o.count-1 {
					o.sum, o.status = 0, StatusUntouched
				}
			}
		}, StepVectors, "status 0"},
		{"a status that is no status", func(l *liar) { l.finish = func(o *lie) { o.status |= 1 << 31 } }, StepVectors, "has status 21474836"},
		{"unaligned addresses are rounded down", func(l *liar) {
			l.finish = func(o *lie) {
				if o.address%8 != 0 {
					p := driver.DevicePtr(o.address &^ 7)
					o.sum = sums.Chunk(l.at(p, int64(len(o.data))))
					o.status = map[bool]uint32{true: StatusMatch, false: StatusMismatch}[o.sum == o.want]
				}
			}
		}, StepVectors, "mod 8"},
		{"the tail is not looked at", func(l *liar) {
			l.finish = func(o *lie) {
				o.sum = sums.Chunk(o.data[:len(o.data)&^3])
				o.status = map[bool]uint32{true: StatusMatch, false: StatusMismatch}[o.sum == o.want]
			}
		}, StepVectors, "1 bytes"},
		{"memory is not cleared", func(l *liar) { l.deaf["MemsetD8Async"] = true; l.deaf["Launch"] = true }, StepVectors, "written outside"},
		{"the table does not arrive", func(l *liar) { l.deaf["table"] = true }, StepVectors, "0xef46db3751d8e999"},
		{"copies to the device do not arrive", func(l *liar) { l.deaf["CopyHtoDAsync"] = true }, StepMemory, "not the same"},
		{"copies to the host do not arrive", func(l *liar) { l.deaf["CopyDtoHAsync"] = true }, StepMemory, "not the same"},
		{"it writes beyond the status words", func(l *liar) {
			l.after = func(l *liar, p params) {
				end := driver.DevicePtr(p.status) + driver.DevicePtr(p.count*statusBytes)
				for i := range l.at(end, 64) {
					l.at(end, 64)[i]++
				}
			}
		}, StepVectors, "written outside"},
		{"it changes the bytes", func(l *liar) {
			l.finish = func(o *lie) { o.data[0] ^= 1 }
		}, StepMemory, "not the same"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar(t)
			c.make(l)
			wantNotProven(t, l, c.step, c.text)
		})
	}
}

// wantNotProven loads from l and returns the refusal, which must be of this
// step and say text.
func wantNotProven(t *testing.T, l device, step Step, text string) *NotProvenError {
	t.Helper()
	k, err := load(context.Background(), l, testUUID)
	if k != nil || err == nil {
		t.Fatal("proven")
	}
	var refusal *NotProvenError
	if !errors.As(err, &refusal) || !errors.Is(err, ErrNotProven) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	if refusal.Step != step || !strings.Contains(err.Error(), text) {
		t.Errorf("step %s, want %s with %q: %v", refusal.Step, step, text, err)
	}
	if !strings.Contains(err.Error(), "GPU-12345678-9abc-def0-0102-030405060708") {
		t.Errorf("the error does not name the device: %v", err)
	}
	return refusal
}

// A call that fails ends the proof at its step, with its error, and nothing is
// left behind.
func TestLoadKeepsTheDriversError(t *testing.T) {
	steps := map[string]Step{
		"ModuleLoad": StepLoad, "ModuleFunction": StepLoad, EntryLanes: StepLoad, EntryFinish: StepLoad,
		"MemAlloc": StepMemory, "HostRegister": StepMemory, "StreamCreate": StepMemory,
		"MemsetD8Async": StepMemory, "CopyHtoDAsync": StepMemory,
		"Launch": StepRun, "CopyDtoHAsync": StepRun, "StreamSynchronize": StepRun,
	}
	for method, step := range steps {
		t.Run(method, func(t *testing.T) {
			l := newLiar(t)
			l.fail[method] = &driver.Error{Call: method, Domain: driver.DomainCUDA, Code: 719, Name: "CUDA_ERROR_LAUNCH_FAILED", Advice: "restart"}
			l.log = "error\n   at line 3"
			refusal := wantNotProven(t, l, step, "CUDA_ERROR_LAUNCH_FAILED")
			var d *driver.Error
			if !errors.As(refusal, &d) || d.Code != 719 || !errors.Is(refusal, driver.ErrDeviceLost) {
				t.Errorf("the driver's error is lost: %v", refusal)
			}
			if (step == StepLoad) != strings.Contains(refusal.Error(), "error at line 3") {
				t.Errorf("the compiler's words belong to the step load: %v", refusal)
			}
		})
	}
}

// A driver that does not return is not waited for; when it does return, what was
// begun is undone.
func TestLoadGivesUpOnAHang(t *testing.T) {
	for _, method := range []string{"ModuleLoad", "StreamSynchronize", "Launch", "MemFree"} {
		t.Run(method, func(t *testing.T) {
			l := newLiar(t)
			hung := make(chan struct{})
			l.block[method] = hung
			ctx, cancel := context.WithCancelCause(context.Background())
			why := errors.New("the store closes")
			go cancel(why)
			k, err := load(ctx, l, testUUID)
			var refusal *NotProvenError
			if k != nil || !errors.As(err, &refusal) || refusal.Step != StepTime || !errors.Is(err, why) {
				t.Errorf("a hanging %s: %v", method, err)
			}
			close(hung)
			// What was begun is undone in the background; newLiar looks.
			waitUntil(t, func() bool { return goleak.Find() == nil })
		})
	}
}

// Pinned memory that the driver keeps is never unmapped: a device may write to it.
func TestLoadKeepsMemoryThatStaysPinned(t *testing.T) {
	l := newLiar(t)
	l.fail["HostUnregister"] = errors.New("device lost")
	b, err := newBench(l)
	if err != nil {
		t.Fatal(err)
	}
	arena := b.arena()
	b.close()
	arena[0] = 1 // faults where it was unmapped
	if b.host != nil {
		t.Error("the bench still has the memory")
	}
}
