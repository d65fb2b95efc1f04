package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/sums"
)

// TestFaultStress has many callers at once on all three ways, with too little
// of every memory for all of them, while calls fail now and then: each answer
// is exact, nobody waits for ever, nothing is left.
func TestFaultStress(t *testing.T) {
	const callers, rounds = 8, 12
	tally := faulttest.New(t)
	f := tally.Try("errors and wrong bytes, now and then")
	b := newBench(t, func(o *Options) {
		o.PinnedBytesMax, o.PinnedChunkBytes = 512<<10, 128<<10
		o.StagingBytesMax, o.LandingBytesMax = 512<<10, 256<<10
		o.Streams, o.ReadsMax, o.HandlesMax, o.VerifyOnDevice = 3, 3, 3, true
		o.DirectErrorsMax = 1 << 30
	})
	r := b.allow()
	b.x.Configure("cuFileRead=stale@7+1")
	b.x.Configure("cuFileRead=errno:5@13+9")
	b.x.Configure("cuMemcpyHtoDAsync_v2=1@20+1")
	b.x.Configure("cuMemcpyDtoDAsync_v2=1@60+1")
	b.x.Configure("cuLaunchKernel=skip@70+1")
	files := make([]*stressFile, 5)
	for i := range files {
		s := &stressFile{data: random(uint64(i)+1000, 256<<10)}
		s.fd, s.id = b.file(fmt.Sprint("file", i), s.data)
		files[i] = s
	}
	var wg sync.WaitGroup
	for c := range callers {
		s := &stressCaller{b: b, r: r, files: files, rnd: rand.New(rand.NewPCG(uint64(c), 5)), span: b.span(96 << 10)}
		wg.Go(func() {
			for range rounds {
				s.step()
			}
		})
	}
	wg.Wait()
	if b.x.Fired("cuFileRead") > 0 && b.x.Fired("cuMemcpyDtoDAsync_v2") > 0 {
		f.Fire()
	}
	st := b.d.Stats()
	if st.Pinned.InUseBytes+st.Staging.InUseBytes+st.Landing.InUseBytes != 0 {
		t.Errorf("in use after all: %+v %+v %+v", st.Pinned, st.Staging, st.Landing)
	}
	b.x.Clear()
	b.close()
	f.Survive()
}

type stressFile struct {
	data []byte
	fd   int
	id   FileID
}

// stressCaller does one thing after the other with a span of its own.
type stressCaller struct {
	b     *bench
	r     *Route
	files []*stressFile
	rnd   *rand.Rand
	span  Span
}

func (s *stressCaller) step() {
	before := s.b.x.Bytes(s.span.Ptr, s.span.LengthBytes)
	n := s.rnd.IntN(int(s.span.LengthBytes)) + 1
	dst := Span{s.span.Ptr, int64(n)}
	var want []byte
	var err error
	switch s.rnd.IntN(3) {
	case 0:
		want, err = s.in(dst)
	case 1:
		want, err = s.read(dst)
	default:
		s.out(Span{s.span.Ptr, int64(n)}, before[:n])
		want, err = before[:n], nil
	}
	got := s.b.x.Bytes(s.span.Ptr, s.span.LengthBytes)
	zeroed := err != nil && len(bytes.Trim(got[:n], "\x00")) == 0
	if err == nil && !bytes.Equal(got[:n], want) || err != nil && !zeroed && !bytes.Equal(got[:n], before[:n]) || !bytes.Equal(got[n:], before[n:]) {
		s.b.t.Errorf("%d bytes, error %v: wrong bytes in the span", n, err)
	}
}

func (s *stressCaller) in(dst Span) ([]byte, error) {
	data := random(s.rnd.Uint64(), int(dst.LengthBytes))
	pin, err := s.b.d.TakePinned(s.b.t.Context(), len(data))
	if err != nil {
		s.b.t.Errorf("TakePinned: %v", err)
		return nil, err
	}
	defer pin.Free()
	copy(pin.Bytes(), data)
	its := []CopyIn{{Src: pin.Bytes(), Checks: checksOf(data), Moves: []Move{{0, dst}}}}
	s.b.d.CopyIn(s.b.t.Context(), its)
	return data, its[0].Err
}

func (s *stressCaller) read(dst Span) ([]byte, error) {
	f := s.files[s.rnd.IntN(len(s.files))]
	length := roundUp(dst.LengthBytes, directAlignBytes)
	off := s.rnd.Int64N((int64(len(f.data))-length)/directAlignBytes+1) * directAlignBytes
	data := f.data[off:][:length]
	its := []DirectRead{{FD: f.fd, File: f.id, FileOffsetBytes: off, LengthBytes: length, Checks: checksOf(data), Moves: []Move{{0, dst}}}}
	s.b.d.ReadDirect(s.b.t.Context(), s.r, its)
	if errors.Is(its[0].Err, ErrMismatch) {
		s.b.allow()
	}
	if s.rnd.IntN(4) == 0 {
		s.r.Forget(f.id)
	}
	return data[:dst.LengthBytes], its[0].Err
}

func (s *stressCaller) out(src Span, want []byte) {
	pin, err := s.b.d.TakePinned(s.b.t.Context(), len(want))
	if err != nil {
		s.b.t.Errorf("TakePinned: %v", err)
		return
	}
	defer pin.Free()
	its := []CopyOut{{Src: []Span{src}, Dst: pin.Bytes(), PlaneBytes: []int64{int64(len(want))}}}
	s.b.d.CopyOut(s.b.t.Context(), its)
	if its[0].Err == nil && (!bytes.Equal(pin.Bytes(), want) || its[0].Sums[0] != sums.Chunk(want[:min(len(want), sums.ChunkBytes)])) {
		s.b.t.Error("a block that left the device is wrong")
	}
}
