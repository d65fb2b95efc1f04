package gpu

import (
	"testing"

	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// TestLaw2FailedTransfer: a transfer that failed never counts as done. Each way
// in and out is failed in ways that leave the destination as it was; the
// answer must say so.
func TestLaw2FailedTransfer(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		name string
		call string
		do   gputest.Fault
		run  func(b *bench) error
	}{
		{"a read that is refused", "cuFileRead", gputest.Fault{Kind: gputest.Errno, Code: 5027}, readOne},
		{"a read that is short", "cuFileRead", gputest.Fault{Kind: gputest.Short}, readOne},
		{"a read of stale bytes", "cuFileRead", gputest.Fault{Kind: gputest.Stale}, readOne},
		{"a file that is not registered", "cuFileHandleRegister", gputest.Fault{Code: 5027}, readOne},
		{"a copy in that is refused", "cuMemcpyHtoDAsync_v2", gputest.Fault{Code: 1}, copyOneIn},
		{"a copy in of stale bytes", "cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: gputest.Stale, Count: 1}, copyOneIn},
		{"a copy out that is refused", "cuMemcpyDtoHAsync_v2", gputest.Fault{Code: 1}, copyOneOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := tally.Try(c.name)
			b := newBench(t, verifying)
			b.x.Set(c.call, c.do)
			err := c.run(b)
			if b.x.Fired(c.call) > 0 {
				f.Fire()
			}
			if err == nil {
				t.Errorf("%s counts as done", c.name)
			}
			b.x.Clear()
			b.close()
			if !t.Failed() {
				f.Survive()
			}
		})
	}
}

func readOne(b *bench) error {
	x := b.reads(1, false)
	x.run(b.allow())
	x.exact()
	return x.items[0].Err
}

func copyOneIn(b *bench) error {
	x := b.copies(1, 70_000)
	x.run()
	x.exact()
	return x.items[0].Err
}

func copyOneOut(b *bench) error {
	pin, err := b.d.TakePinned(b.t.Context(), 5000)
	if err != nil {
		b.t.Fatal(err)
	}
	defer pin.Free()
	its := []CopyOut{{Src: []Span{b.span(5000)}, Dst: pin.Bytes()}}
	b.d.CopyOut(b.t.Context(), its)
	return its[0].Err
}
