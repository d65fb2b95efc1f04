package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/sums"
)

// source puts data into device memory, in pieces of these lengths.
func (r *rig) source(data []byte, lengths ...int64) (out []Span) {
	for _, n := range lengths {
		s := r.span(n)
		copy(r.g.bytes(s), data[:n])
		data = data[n:]
		out = append(out, s)
	}
	return out
}

func TestCopyOut(t *testing.T) {
	r := newRig(t, nil)
	defer r.close()
	data := random(1, 200_000)
	for _, c := range []struct {
		name   string
		spans  []int64
		planes []int64
	}{
		{"one span", []int64{200_000}, []int64{200_000}},
		{"scattered", []int64{1, 99_999, 70_000, 30_000}, []int64{100_000, 100_000}},
		{"planes of odd lengths", []int64{150_000, 50_000}, []int64{65_537, 0, 134_463}},
		{"no sums", []int64{200_000}, nil},
	} {
		pin := r.pin(make([]byte, len(data)))
		its := []CopyOut{{Src: r.source(data, c.spans...), Dst: pin.Bytes(), PlaneBytes: c.planes}}
		r.d.CopyOut(t.Context(), its)
		var want []uint64
		rest := data
		for _, n := range c.planes {
			want = sums.Chunks(want, rest[:n])
			rest = rest[n:]
		}
		if its[0].Err != nil || !bytes.Equal(pin.Bytes(), data) || !slices.Equal(its[0].Sums, want) || its[0].SumsOnDevice {
			t.Errorf("%s: %v, %d sums, on the device: %v", c.name, its[0].Err, len(its[0].Sums), its[0].SumsOnDevice)
		}
		pin.Free()
	}
	if st := r.d.Stats().HostOut; st.Done != 4 || st.DoneBytes != 800_000 || st.Verified != 0 {
		t.Errorf("%+v", st)
	}
}

func TestCopyOutRefuses(t *testing.T) {
	r := newRig(t, nil)
	defer r.close()
	src := r.span(100)
	pin := r.pin(make([]byte, 100))
	defer pin.Free()
	for name, it := range map[string]CopyOut{
		"a short buffer":          {Src: []Span{src}, Dst: pin.Bytes()[:99]},
		"a long buffer":           {Src: []Span{{src.Ptr, 99}}, Dst: pin.Bytes()},
		"memory of the heap":      {Src: []Span{src}, Dst: make([]byte, 100)},
		"no source":               {Dst: pin.Bytes()},
		"a source at 0":           {Src: []Span{{0, 100}}, Dst: pin.Bytes()},
		"planes that are short":   {Src: []Span{src}, Dst: pin.Bytes(), PlaneBytes: []int64{99}},
		"planes that are long":    {Src: []Span{src}, Dst: pin.Bytes(), PlaneBytes: []int64{100, 1}},
		"a plane of less than 0":  {Src: []Span{src}, Dst: pin.Bytes(), PlaneBytes: []int64{101, -1}},
		"planes of huge lengths":  {Src: []Span{src}, Dst: pin.Bytes(), PlaneBytes: []int64{1<<63 - 1, 1<<63 - 1}},
		"planes, but none at all": {Src: []Span{src}, Dst: pin.Bytes(), PlaneBytes: []int64{}},
	} {
		its := []CopyOut{it}
		r.d.CopyOut(t.Context(), its)
		if !errors.Is(its[0].Err, ErrInvalid) {
			t.Errorf("%s: %v", name, its[0].Err)
		}
	}
}

// TestFaultCopyOut fails each call of the way out: a block without an error is
// right, and the memory comes back, or is set aside with the device.
func TestFaultCopyOut(t *testing.T) {
	tally := faulttest.New(t)
	for _, code := range []int{1, 719} {
		for call, times := range map[string]int{"d2d": 8, "d2h": 4, "record": 2} {
			for at := range times {
				f := tally.Try(fmt.Sprintf("%s fails with %d at %d", call, code, at))
				r := newRig(t, nil)
				its := make([]CopyOut, 4)
				data := make([][]byte, len(its))
				for i := range its {
					data[i] = random(uint64(i), 10_000)
					pin := r.pin(make([]byte, 10_000))
					defer pin.Free()
					its[i] = CopyOut{Src: r.source(data[i], 4000, 6000), Dst: pin.Bytes(), PlaneBytes: []int64{10_000}}
				}
				r.g.before = failAt(f, call, at, &driver.Error{Call: "test", Domain: driver.DomainCUDA, Code: code})
				r.d.CopyOut(t.Context(), its)
				r.g.before = nil
				failed := 0
				for i := range its {
					if its[i].Err != nil {
						failed++
						if its[i].Sums != nil {
							t.Errorf("%s at %d: sums of a block that failed", call, at)
						}
						continue
					}
					if !bytes.Equal(its[i].Dst, data[i]) || its[i].Sums[0] != sums.Chunk(data[i]) {
						t.Errorf("%s at %d: block %d is wrong", call, at, i)
					}
				}
				if want := map[bool]int{true: 4, false: 1}[code == 719]; call != "record" && failed != want || call == "record" && code == 719 && failed != 4 {
					t.Errorf("%s at %d with %d: %d blocks failed", call, at, code, failed)
				}
				if code == 719 {
					r.mustLeak()
				} else {
					for i := range its {
						pin, err := r.d.buffers.use(its[i].Dst)
						if err != nil {
							t.Fatal(err)
						}
						pin.unuse(false)
						pin.Free()
					}
					r.close()
				}
				f.Survive()
			}
		}
	}
}
