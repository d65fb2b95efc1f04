package meta

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// replica is one of the two copies of a file, as found.
type replica[T any] struct {
	file       string
	raw        []byte
	state      T
	generation uint64
	missing    bool
	err        error // missing, unreadable, damaged or unsupported
}

// usable: the copy is whole. It may still be one that this program must not
// open, which counts if it is the newest.
func (r *replica[T]) usable() bool { return r.err == nil || errors.Is(r.err, ErrUnsupported) }

// decoder reads a copy; with ErrUnsupported it still gives the generation.
type decoder[T any] func(file string, raw []byte) (state T, generation uint64, err error)

func readReplica[T any](fsys vfs.FS, file string, limitBytes int64, decode decoder[T]) replica[T] {
	r := replica[T]{file: file}
	if r.raw, r.err = readFile(fsys, file, limitBytes); r.err != nil {
		r.missing = vfs.IsNotExist(r.err)
		return r
	}
	r.state, r.generation, r.err = decode(file, r.raw)
	return r
}

// choose picks the copy that counts, the usable one with the highest
// generation, and says what is wrong with the other. other is nil when both
// are the same.
func choose[T any](a, b *replica[T], advice string) (winner, other *replica[T], found []Finding, err error) {
	winner, other = a, b
	if !a.usable() || (b.usable() && b.generation > a.generation) {
		winner, other = b, a
	}
	switch {
	case !winner.usable():
		if later := laterFormat(a.file, a.raw, b.raw); later != nil {
			return nil, nil, nil, later
		}
		return nil, nil, nil, &DamagedError{Findings: []Finding{a.finding(), b.finding()}, Advice: advice}
	case winner.err != nil:
		return nil, nil, nil, winner.err
	case other.usable() && other.generation == winner.generation:
		if bytes.Equal(a.raw, b.raw) {
			return winner, nil, nil, nil
		}
		// Nothing that this package does ends here: one was put back by hand.
		return nil, nil, nil, &DamagedError{
			Findings: []Finding{{File: b.file, Problem: fmt.Sprintf("same generation %d as %s, other content", b.generation, a.file)}},
			Advice:   "move the copy that is not to be trusted out of the directory",
		}
	case other.usable():
		f := Finding{File: other.file, Problem: fmt.Sprintf("generation %d, behind %d", other.generation, winner.generation)}
		return winner, other, []Finding{f}, nil
	}
	return winner, other, []Finding{other.finding()}, nil
}

func (r *replica[T]) finding() Finding {
	if r.missing {
		return Finding{File: r.file, Problem: "missing", err: r.err}
	}
	return Finding{File: r.file, Problem: r.err.Error(), err: r.err}
}

// heal brings the losing copy back. The first finding is about it.
func heal[T any](fsys vfs.FS, winner, other *replica[T], found []Finding) error {
	if other == nil {
		return nil
	}
	if err := replaceFile(fsys, other.file, winner.raw); err != nil {
		found[0].Problem += "; could not be healed: " + err.Error()
		return err
	}
	found[0].Healed = true
	return nil
}

// replacePair replaces both copies, one after the other: at no moment is
// neither of them whole and durable.
func replacePair(fsys vfs.FS, first, second string, data []byte) error {
	if err := replaceFile(fsys, first, data); err != nil {
		return err
	}
	return replaceFile(fsys, second, data)
}
