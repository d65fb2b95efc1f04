package meta

import (
	"bytes"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

// Two damaged copies may complete each other. What comes of that is no guess:
// a candidate counts only if it decodes whole under its own keyed sum of 64
// bits, and if no other one does. Damage that both copies have in the same
// bytes is beyond help, but for one flipped bit.

// salvageBudgetBytes bounds the bytes that are hashed in search of a whole
// copy.
const salvageBudgetBytes = 1 << 30

// Salvaged is a file that was put together again.
type Salvaged struct {
	File string // the first of its two copies
	How  string // what it was put together from
	data []byte
	copy string // the second
}

// Salvage looks for what is left of a store's metadata where Open fails with a
// *DamagedError. It returns the files that can be had again, and changes
// nothing; that of a file which is whole already is not among them.
//
// Errors: a *DamagedError for what cannot be had again, those of the system.
func Salvage(fsys vfs.FS) ([]Salvaged, error) {
	var out []Salvaged
	s, err := salvagePair(fsys, StoreFile, StoreCopyFile, storeBytes, storeAdvice, func(p []byte) (uint64, bool) {
		st, err := decodeStore(StoreFile, p, true)
		return st.info.Generation, err == nil
	})
	if err != nil {
		return nil, err
	}
	if s.How != "" {
		out = append(out, s)
	}
	store, err := decodeStore(StoreFile, s.data, true)
	if err != nil {
		return nil, fmt.Errorf("meta: salvage %s: %w", StoreFile, err)
	}
	key := sums.NewKey(store.secret)
	n, err := salvagePair(fsys, NamespacesFile, NamespacesCopyFile, MaxNamespacesBytes, namesAdvice, func(p []byte) (uint64, bool) {
		st, err := decodeNames(NamespacesFile, p, key, store.info.UUID, true)
		if err != nil {
			return 0, false
		}
		return st.generation, true
	})
	if err != nil {
		return nil, err
	}
	if n.How != "" {
		out = append(out, n)
	}
	return out, nil
}

// Restore writes both copies, durably.
func (s Salvaged) Restore(fsys vfs.FS) error {
	return replacePair(fsys, s.File, s.copy, s.data)
}

// image is a copy as found.
type copyImage struct {
	file string
	data []byte
}

// salvagePair finds the newest whole image of a file. How is empty if one of
// the two copies is it.
func salvagePair(fsys vfs.FS, first, second string, limitBytes int64, advice string, whole func([]byte) (uint64, bool)) (Salvaged, error) {
	out := Salvaged{File: first, copy: second}
	var images []copyImage
	var findings []Finding
	best := uint64(0)
	// A change that was cut off may have left a whole copy under a name of its
	// own.
	for _, file := range []string{first, second, first + tmpSuffix, second + tmpSuffix} {
		p, err := readFile(fsys, file, limitBytes)
		if err != nil {
			if !vfs.IsNotExist(err) {
				findings = append(findings, Finding{File: file, Problem: err.Error(), err: err})
			} else if file == first || file == second {
				findings = append(findings, Finding{File: file, Problem: "missing", err: err})
			}
			continue
		}
		g, ok := whole(p)
		if !ok {
			images = append(images, copyImage{file, p})
			findings = append(findings, Finding{File: file, Problem: "damaged"})
			continue
		}
		isCopy := file == first || file == second
		if out.data == nil || g > best && isCopy {
			out.data, best, out.How = p, g, ""
			if !isCopy {
				out.How = "the whole content of " + file
			}
		}
	}
	if out.data != nil {
		return out, nil
	}
	s := search{whole: whole, budget: salvageBudgetBytes}
	out.How = s.run(images)
	if out.data = s.found; out.data == nil {
		if s.ambiguous {
			findings = append(findings, Finding{File: first, Problem: "more than one way to put it together"})
		}
		return out, &DamagedError{Findings: findings, Advice: advice}
	}
	return out, nil
}

// search tries candidates until its budget ends.
type search struct {
	whole     func([]byte) (uint64, bool)
	budget    int64
	found     []byte
	ambiguous bool
}

// run returns how the one whole candidate came about, or leaves found nil.
func (s *search) run(images []copyImage) (how string) {
	for i, a := range images {
		for _, b := range images[i+1:] {
			if len(a.data) != len(b.data) {
				continue
			}
			if s.joined(a.data, b.data) || s.mixed(a.data, b.data) {
				how = fmt.Sprintf("the sound parts of %s and %s", a.file, b.file)
			}
		}
	}
	for _, a := range images {
		if s.found == nil && s.flipped(a.data) {
			how = fmt.Sprintf("%s, of which one bit had flipped", a.file)
		}
	}
	if s.ambiguous {
		s.found = nil
	}
	return how
}

// try judges one candidate, which it copies if it is whole.
func (s *search) try(p []byte) bool {
	if s.budget -= int64(len(p)); s.budget < 0 {
		return false
	}
	if _, ok := s.whole(p); !ok {
		return false
	}
	if s.found != nil && !bytes.Equal(s.found, p) {
		s.ambiguous = true
	}
	s.found = bytes.Clone(p)
	return true
}

// joined tries the beginning of one and the end of the other.
func (s *search) joined(a, b []byte) bool {
	ok := false
	for _, pair := range [][2][]byte{{a, b}, {b, a}} {
		p := bytes.Clone(pair[1])
		for cut := range p {
			if same := p[cut] == pair[0][cut]; same {
				continue // the candidate before was the same
			}
			p[cut] = pair[0][cut]
			ok = s.try(p) || ok
		}
	}
	return ok
}

// mixedMax is the most differing bytes of which each is tried either way.
const mixedMax = 12

// mixed tries, for few differing bytes, each combination.
func (s *search) mixed(a, b []byte) bool {
	var differ []int
	for i := range a {
		if a[i] != b[i] {
			if differ = append(differ, i); len(differ) > mixedMax {
				return false
			}
		}
	}
	ok := false
	for take := range 1 << len(differ) {
		p := bytes.Clone(a)
		for bit, i := range differ {
			if take&(1<<bit) != 0 {
				p[i] = b[i]
			}
		}
		ok = s.try(p) || ok
	}
	return ok
}

// flipped tries each bit of one copy the other way round.
func (s *search) flipped(a []byte) bool {
	p := bytes.Clone(a)
	for i := range p {
		for bit := range 8 {
			p[i] ^= 1 << bit
			if s.try(p) {
				return true
			}
			p[i] ^= 1 << bit
		}
		if s.budget < 0 {
			return false
		}
	}
	return false
}
