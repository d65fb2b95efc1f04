package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

func TestJobTakesWhatFits(t *testing.T) {
	const n = 3
	cases := []struct {
		name        string
		device      driver.DevicePtr
		deviceBytes int64
		hostBytes   int64
		limit       int // 0: refused
	}{
		{"both fit", 8, DeviceBytes(n), HostBytes(n), n},
		{"device memory is short", 8, DeviceBytes(n) - 1, HostBytes(n + 5), n - 1},
		{"host memory is short", 8, DeviceBytes(n + 5), HostBytes(n) - 1, n - 1},
		{"more than a job takes", 8, DeviceBytes(2 * MaxPieces), HostBytes(2 * MaxPieces), MaxPieces},
		{"not one piece", 8, DeviceBytes(1) - 1, HostBytes(1), 0},
		{"no host memory", 8, DeviceBytes(1), 0, 0},
		{"no device memory", 0, DeviceBytes(1), HostBytes(1), 0},
		{"unaligned device memory", 12, DeviceBytes(1), HostBytes(1), 0},
		{"negative size", 8, -1, HostBytes(1), 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			j, err := NewJob(c.device, c.deviceBytes, make([]byte, c.hostBytes))
			if c.limit == 0 {
				if !errors.Is(err, ErrInvalid) {
					t.Fatalf("not refused: %v", err)
				}
				return
			}
			if err != nil || j.Limit() != c.limit {
				t.Fatalf("limit %d, want %d: %v", j.Limit(), c.limit, err)
			}
			for range c.limit {
				if err := j.Add(Piece{Address: 1, LengthBytes: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Add(Piece{Address: 1, LengthBytes: 1}); !errors.Is(err, ErrInvalid) || j.Len() != c.limit {
				t.Errorf("piece %d: %v", c.limit+1, err)
			}
		})
	}
}

func TestJobRefusesPieces(t *testing.T) {
	j, err := NewJob(8, DeviceBytes(9), make([]byte, HostBytes(9)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []Piece{
		{Address: 0, LengthBytes: 1}, {Address: 8, LengthBytes: 0}, {Address: 8, LengthBytes: -1},
		{Address: 8, LengthBytes: sums.ChunkBytes + 1},
	} {
		if err := j.Add(p); !errors.Is(err, ErrInvalid) || j.Len() != 0 {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []Piece{{Address: 1, LengthBytes: 1}, {Address: 1<<64 - 1, LengthBytes: sums.ChunkBytes}} {
		if err := j.Add(p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, i := range []int{-1, 2} {
		if _, err := j.Sum(i); !errors.Is(err, ErrInvalid) {
			t.Errorf("piece %d of 2: %v", i, err)
		}
	}
	if err := j.Verified(0); !errors.Is(err, ErrUntrusted) {
		t.Errorf("before the launch: %v", err)
	}
}

// jobOn is a job over memory of l, with the pieces of data on the device.
func jobOn(t *testing.T, l *liar, data [][]byte) (k *Kernel, j *Job) {
	t.Helper()
	b, err := newBench(l)
	if err != nil {
		t.Fatal(err)
	}
	k, _, err = loadModule(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.close()
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	offset := 0
	for i, d := range data {
		at := b.deviceArena() + driver.DevicePtr(offset)
		copy(l.at(at, int64(len(d))), d)
		if err := b.job.Add(Piece{Address: uint64(at), LengthBytes: len(d), Want: sums.Chunk(d)}); err != nil {
			t.Fatalf("piece %d: %v", i, err)
		}
		offset += len(d) + 3
	}
	return k, b.job
}

func TestVerifyAnswersPieceByPiece(t *testing.T) {
	l := newLiar(t)
	data := [][]byte{noise(1, 10), noise(2, 4096), noise(3, 65536), noise(4, 33)}
	k, j := jobOn(t, l, data)
	j.pieces[1].Want++ // what the device compares with stays right: a table damaged on its way
	bad := l.at(driver.DevicePtr(j.pieces[2].Address), 1)
	bad[0] ^= 4
	if err := k.Verify(1, j); err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, ErrUntrusted, ErrMismatch, nil} {
		if err := j.Verified(i); !errors.Is(err, want) {
			t.Errorf("piece %d: %v, want %v", i, err, want)
		}
	}
	sum, err := j.Sum(2)
	now := append([]byte{data[2][0] ^ 4}, data[2][1:]...)
	if err != nil || sum != sums.Chunk(now) {
		t.Errorf("the sum of the bytes as they are is %#x, %v", sum, err)
	}
	if err := k.Verify(1, j); !errors.Is(err, ErrInvalid) {
		t.Errorf("launched twice: %v", err)
	}
	if err := j.Add(Piece{Address: 8, LengthBytes: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("added after the launch: %v", err)
	}
	j.Reset()
	if err := k.Verify(1, j); !errors.Is(err, ErrInvalid) {
		t.Errorf("launched empty: %v", err)
	}
}

// After the launch fails at any call, no answer is believed, not even right ones
// that an earlier run of the same pieces left in the memory.
func TestVerifyBelievesNothingAfterAnError(t *testing.T) {
	for _, method := range []string{"MemsetD8Async", "CopyHtoDAsync", "Launch", "CopyDtoHAsync"} {
		t.Run(method, func(t *testing.T) {
			l := newLiar(t)
			k, j := jobOn(t, l, [][]byte{noise(1, 100), noise(2, 200)})
			pieces := append([]Piece(nil), j.pieces...)
			if err := k.Verify(1, j); err != nil || j.Verified(0) != nil || j.Verified(1) != nil {
				t.Fatal("the honest run failed", err)
			}
			j.Reset()
			for _, p := range pieces {
				if err := j.Add(p); err != nil {
					t.Fatal(err)
				}
			}
			broken := errors.New("broken")
			l.fail[method] = broken
			if err := k.Verify(1, j); !errors.Is(err, broken) {
				t.Fatalf("%v", err)
			}
			for i := range pieces {
				if err := j.Verified(i); !errors.Is(err, ErrUntrusted) {
					t.Errorf("piece %d: %v", i, err)
				}
			}
		})
	}
}

// A step that does nothing and says that it did is seen, though the memory holds
// the right answers of an earlier run over the same places.
func TestVerifySeesAStepThatDoesNothing(t *testing.T) {
	for _, step := range []string{"table", EntryLanes, EntryFinish, "CopyDtoHAsync"} {
		t.Run(step, func(t *testing.T) {
			l := newLiar(t)
			k, j := jobOn(t, l, [][]byte{noise(1, 100), noise(2, 200)})
			pieces := append([]Piece(nil), j.pieces...)
			if err := k.Verify(1, j); err != nil || j.Verified(0) != nil {
				t.Fatal("the honest run failed", err)
			}
			j.Reset()
			for _, p := range pieces {
				if err := j.Add(p); err != nil {
					t.Fatal(err)
				}
			}
			l.deaf[step] = true
			if err := k.Verify(1, j); err != nil {
				t.Fatal(err)
			}
			for i := range pieces {
				if j.Verified(i) == nil {
					t.Errorf("piece %d passed without the %s", i, step)
				}
			}
		})
	}
}

// Whatever stands in the answers, a piece passes only with status 1 and the
// wanted sum.
func TestJobAnswersProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(r, "pieces")
		j, err := NewJob(8, DeviceBytes(n), make([]byte, HostBytes(n)))
		if err != nil {
			r.Fatal(err)
		}
		word := rapid.SampledFrom([]uint64{0, 1, 2, 1 << 63, 0xa5a5a5a5a5a5a5a5})
		for range n {
			if err := j.Add(Piece{Address: 8, LengthBytes: 1, Want: word.Draw(r, "want")}); err != nil {
				r.Fatal(err)
			}
		}
		j.ran = true
		type outcome struct {
			got    uint64
			status uint32
		}
		outcomes := make([]outcome, n)
		for i := range outcomes {
			o := outcome{word.Draw(r, "got"), rapid.SampledFrom([]uint32{0, 1, 2, 3, 257, 1 << 31}).Draw(r, "status")}
			binary.LittleEndian.PutUint64(j.results()[8*i:], o.got)
			binary.LittleEndian.PutUint32(j.results()[8*n+4*i:], o.status)
			outcomes[i] = o
		}
		for i, o := range outcomes {
			equal := o.got == j.pieces[i].Want
			want := error(ErrUntrusted)
			switch {
			case o.status == 1 && equal:
				want = nil
			case o.status == 2 && !equal:
				want = ErrMismatch
			}
			if err := j.Verified(i); !errors.Is(err, want) {
				r.Fatalf("%+v, wanted %#x: %v, want %v", o, j.pieces[i].Want, err, want)
			}
			if sum, err := j.Sum(i); (err == nil) != (want != ErrUntrusted) || err == nil && sum != o.got {
				r.Fatalf("%+v: sum %#x, %v", o, sum, err)
			}
		}
	})
}

// The vectors lie apart, within the arena, and every one is wrong in one round.
func TestVectorsLieApart(t *testing.T) {
	vectors, arenaBytes := vectorArena()
	end := 0
	for i, v := range vectors {
		if v.offset < end || v.offset+v.length+vectorGap > arenaBytes {
			t.Errorf("vector %d, %d bytes at %d, in an arena of %d after %d", i, v.length, v.offset, arenaBytes, end)
		}
		end = v.offset + v.length + vectorGap
		if wrongInRound(i, 0) == wrongInRound(i, 1) {
			t.Errorf("vector %d has the same outcome in both rounds", i)
		}
	}
	arena := make([]byte, arenaBytes)
	fillVectors(rand.New(rand.NewPCG(1, 1)), arena, vectors, func(i int) bool { return i%2 == 0 })
	for i, v := range vectors {
		if v.match() != (i%2 == 1) || v.sum != sums.Chunk(arena[v.offset:][:v.length]) {
			t.Errorf("vector %d: %s", i, fmt.Sprintf("%+v", v))
		}
	}
}
