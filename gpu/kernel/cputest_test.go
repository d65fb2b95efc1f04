package kernel

import (
	"bufio"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/sums"
)

// cpuKernel is the kernel's source compiled for the CPU and running.
type cpuKernel struct {
	in  *bufio.Writer
	out *bufio.Reader
}

// compileForCPU compiles testdata/cputest.cc with the sanitizers, or without
// where the compiler lacks them, and starts it.
func compileForCPU(t *testing.T) *cpuKernel {
	t.Helper()
	cxx, err := exec.LookPath("g++")
	if err != nil {
		t.Skip("there is no g++ in PATH")
	}
	openSources(t)
	bin := filepath.Join(t.TempDir(), "cputest")
	args := []string{"-std=c++17", "-O2", "-Wall", "-Wextra", "-I.", "testdata/cputest.cc", "-o", bin}
	checked := append([]string{"-fsanitize=address,undefined", "-fno-sanitize-recover=all"}, args...)
	if out, err := exec.Command(cxx, checked...).CombinedOutput(); err != nil {
		t.Logf("without sanitizers: %v\n%s", err, out)
		if out, err := exec.Command(cxx, args...).CombinedOutput(); err != nil {
			t.Fatalf("g++: %v\n%s", err, out)
		}
	}
	cmd := exec.Command(bin)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // Wait tells how the program ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("cputest: %v", err)
		}
	})
	return &cpuKernel{in: bufio.NewWriter(in), out: bufio.NewReader(out)}
}

// openSources opens what a compiler reads, so that the go command runs the test
// anew when it changes: it keeps results by the files that a test itself opened.
func openSources(t *testing.T) {
	t.Helper()
	for _, name := range []string{"verify.cu", "xxh64.cuh", "testdata/cputest.cc", "generate.sh"} {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
}

// answer is what the kernel wrote for a piece.
type answer struct {
	sum    uint64
	status uint32
}

// run has the kernel verify pieces, whose addresses are offsets in arena.
func (k *cpuKernel) run(arena []byte, pieces []Piece, backwards bool) ([]answer, error) {
	le := binary.LittleEndian
	head := le.AppendUint32(nil, uint32(len(arena)))
	head = le.AppendUint32(head, uint32(len(pieces)))
	if backwards {
		head = le.AppendUint32(head, 1)
	} else {
		head = le.AppendUint32(head, 0)
	}
	k.in.Write(head) // a bufio.Writer keeps its first error for Flush
	k.in.Write(arena)
	for _, p := range pieces {
		row := le.AppendUint32(nil, uint32(p.Address))
		row = le.AppendUint32(row, uint32(p.LengthBytes))
		k.in.Write(le.AppendUint64(row, p.Want))
	}
	if err := k.in.Flush(); err != nil {
		return nil, err
	}
	answers := make([]answer, len(pieces))
	for i := range answers {
		var b [12]byte
		if _, err := io.ReadFull(k.out, b[:]); err != nil {
			return nil, err
		}
		answers[i] = answer{sum: le.Uint64(b[:]), status: le.Uint32(b[8:])}
	}
	return answers, nil
}

// checkAgainstSums has the kernel verify pieces and compares with package sums.
// A piece whose Want is not its sum must come out as a mismatch.
func checkAgainstSums(t *testing.T, k *cpuKernel, arena []byte, pieces []Piece, backwards bool) {
	t.Helper()
	answers, err := k.run(arena, pieces, backwards)
	if err != nil {
		t.Fatalf("cputest: %v", err)
	}
	for i, p := range pieces {
		sum := sums.Chunk(arena[p.Address:][:p.LengthBytes])
		want := answer{sum: sum, status: StatusMatch}
		if p.Want != sum {
			want.status = StatusMismatch
		}
		if answers[i] != want {
			t.Fatalf("%d bytes at offset %d (%d mod 8), wanted %#x: kernel says %#x, status %d; want %#x, %d",
				p.LengthBytes, p.Address, p.Address%8, p.Want, answers[i].sum, answers[i].status, want.sum, want.status)
		}
	}
}

// pieceOf is the piece at offset with its right sum.
func pieceOf(arena []byte, offset, n int) Piece {
	return Piece{Address: uint64(offset), LengthBytes: n, Want: sums.Chunk(arena[offset:][:n])}
}

// Every length up to some stripes, and those around the powers of two up to
// the largest chunk, at every alignment.
func TestSourceOnCPUEveryAlignment(t *testing.T) {
	k := compileForCPU(t)
	var lengths []int
	for n := 0; n <= 600; n++ {
		lengths = append(lengths, n)
	}
	for n := 1 << 10; n <= sums.ChunkBytes; n <<= 1 {
		lengths = append(lengths, n-33, n-32, n-1, n, n+1, n+31)
	}
	// The pieces do not touch, so that a byte beyond one is nobody's.
	const gap = 64
	size := 0
	for _, n := range lengths {
		size += (n+gap-1)/gap*gap + gap
	}
	arena := noise(1, size+gap)
	for align := range 16 {
		var pieces []Piece
		offset := align
		for i, n := range lengths {
			p := pieceOf(arena, offset, n)
			if i%7 == align%7 {
				p.Want++
			}
			pieces = append(pieces, p)
			offset += (n+gap-1)/gap*gap + gap
		}
		checkAgainstSums(t, k, arena, pieces, align%2 == 1)
	}
}

// At least 40,000 pieces of random lengths, places, contents and verdicts. The
// pieces of a launch overlap, as retries of a block do.
func TestSourceOnCPURandom(t *testing.T) {
	cases := 40_000
	if os.Getenv("SEALSTONE_FULL") != "" {
		cases = 2_000_000
	}
	k := compileForCPU(t)
	seed := seedOf(t)
	r := rand.New(rand.NewPCG(seed, 0))
	done := 0
	for round := 0; done < cases; round++ {
		arena := noise(seed+uint64(round), sums.ChunkBytes+r.IntN(sums.ChunkBytes))
		pieces := make([]Piece, 1+r.IntN(2000))
		for i := range pieces {
			pieces[i] = randomPiece(r, arena)
		}
		checkAgainstSums(t, k, arena, pieces, r.IntN(2) == 1)
		done += len(pieces)
	}
	t.Logf("%d pieces", done)
}

// randomPiece is mostly short, where the cases are, sometimes long. Half of
// them are at an aligned address, and one of four is wrong: by one bit of the
// sum, or because the sum is that of other bytes.
func randomPiece(r *rand.Rand, arena []byte) Piece {
	n := r.IntN(256)
	if r.IntN(16) == 0 {
		n = r.IntN(sums.ChunkBytes + 1)
	}
	offset := r.IntN(len(arena) - n + 1)
	if r.IntN(2) == 0 {
		offset &^= 7
	}
	p := pieceOf(arena, offset, n)
	switch r.IntN(8) {
	case 0:
		p.Want ^= 1 << r.IntN(64)
	case 1:
		p.Want = r.Uint64()
	}
	return p
}

// seedOf is the seed of a random test: SEALSTONE_SEED, or one of the clock,
// which is printed when the test fails.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("SEALSTONE_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("SEALSTONE_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("SEALSTONE_SEED=%d replays it", seed)
		}
	})
	return seed
}

// noise is n random bytes.
func noise(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 9))
	b := make([]byte, (n+7)/8*8)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n]
}
