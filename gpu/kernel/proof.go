package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// Proof is what was tried before the kernel was given out.
type Proof struct {
	Vectors  int           // known vectors over all rounds
	Wrong    int           // of which so many had to come out as a mismatch, and did
	LoadTime time.Duration // the driver compiled the PTX or found it compiled before
	Time     time.Duration // loading and proof
}

// proofRounds: the second round runs over the memory of the first with other
// bytes, and with the outcomes exchanged. An answer that is left over from the
// first, or that does not depend on the bytes, fails it.
const proofRounds = 2

// Every third vector is wrong in one round and right in the next, or the
// other way round, the first and the last one included.
func wrongInRound(i, round int) bool { return (i%3 == 0) == (round%2 == 0) }

// prove runs the known vectors.
func (k *Kernel) prove(uuid [16]byte) (err error) {
	b, err := newBench(k.c)
	if err != nil {
		return &NotProvenError{UUID: uuid, Step: StepMemory, Err: err}
	}
	defer b.close()
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for round := range proofRounds {
		fillVectors(r, b.arena(), b.vectors, func(i int) bool { return wrongInRound(i, round) })
		if step, err := k.proveRound(b, byte(0xa5+round)); err != nil {
			return &NotProvenError{UUID: uuid, Step: step, Err: fmt.Errorf("round %d: %w", round+1, err)}
		}
	}
	return nil
}

// proveRound takes the vectors to the device, among bytes of poison, verifies
// them and looks at everything that comes back.
func (k *Kernel) proveRound(b *bench, poison byte) (Step, error) {
	b.job.Reset()
	for _, v := range b.vectors {
		p := Piece{Address: uint64(b.deviceArena()) + uint64(v.offset), LengthBytes: v.length, Want: v.want}
		if err := b.job.Add(p); err != nil {
			return StepRun, err
		}
	}
	if err := b.upload(poison); err != nil {
		return StepMemory, err
	}
	if err := k.Verify(b.stream, b.job); err != nil {
		return StepRun, err
	}
	if err := b.download(); err != nil {
		return StepRun, err
	}
	if !bytes.Equal(b.back()[guardBytes:][:b.arenaBytes], b.arena()) {
		return StepMemory, fmt.Errorf("%d bytes copied to the device and back are not the same", b.arenaBytes)
	}
	if err := b.checkGuards(poison); err != nil {
		return StepVectors, err
	}
	return StepVectors, k.checkVectors(b)
}

// checkVectors compares every outcome with the known one.
func (k *Kernel) checkVectors(b *bench) error {
	for i, v := range b.vectors {
		sum, err := b.job.Sum(i)
		if err != nil {
			return fmt.Errorf("%d bytes at %d mod 8: %w", v.length, v.offset%8, err)
		}
		if sum != v.sum {
			return fmt.Errorf("%d bytes at %d mod 8 have the sum %#016x; the kernel computed %#016x", v.length, v.offset%8, v.sum, sum)
		}
		k.proof.Vectors++
		if !v.match() {
			k.proof.Wrong++
		}
	}
	return nil
}

// checkGuards finds writes outside of what the kernel was given, in the device
// memory as it came back.
func (b *bench) checkGuards(poison byte) error {
	back := b.back()
	for _, at := range b.guards() {
		if n := bytes.Count(back[at:][:guardBytes], []byte{poison}); n != guardBytes {
			return fmt.Errorf("%d bytes were written outside of what was given to the kernel, at %d of %d", guardBytes-n, at, len(back))
		}
	}
	return nil
}

// deviceArena is where the arena lies on the device.
func (b *bench) deviceArena() driver.DevicePtr { return b.device + guardBytes }
