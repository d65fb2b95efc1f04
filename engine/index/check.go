package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/tiers/disk"
)

// maxProblems bounds what a check lists; what follows is counted only.
const maxProblems = 1000

// Problem is a disagreement between records of the index.
type Problem struct {
	Segment uint64 // that it is about, or 0
	Key     Key    // that it is about, or zero
	Reason  string
}

// Checked is what a check of the index went through.
type Checked struct {
	Keys, Aliases, Refs, Contents int64
	// Segments are those that any record refers to.
	Segments map[uint64]bool
	// Problems are the first of them, ProblemCount is all.
	Problems     []Problem
	ProblemCount int64
}

// Check reads every record (and, of an index opened read-only, every block of
// the tables in use) and holds them against one another: each reference
// is that of a key which lies there, each key has its references, live bytes
// and contents are those of the keys. tenantOf numbers the tenant of a
// namespace. A record that does not decode fails the index (ErrFailed).
func (d *DB) Check(ctx context.Context, tenantOf func(namespace uint32) uint32) (*Checked, error) {
	c, err := call(ctx, d, func() (*Checked, error) {
		k := checker{d: d, v: &view{r: d.db}, ctx: ctx, tenantOf: tenantOf, out: &Checked{Segments: map[uint64]bool{}}, live: map[uint64]int64{}, tally: tally{uses: uses{}}}
		return k.out, errors.Join(d.checkTables(ctx), k.keys(), k.refs(), k.liveBytes(), k.uses(), k.contents(), k.v.close())
	})
	return c, d.noteDamage(err)
}

type checker struct {
	d        *DB
	v        *view
	ctx      context.Context
	tenantOf func(uint32) uint32
	out      *Checked
	live     map[uint64]int64 // computed
	counted  disk.Address     // the last address whose bytes are in live
	tally    tally
}

func (c *checker) problem(segment uint64, k Key, format string, args ...any) {
	if c.out.ProblemCount++; c.out.ProblemCount <= maxProblems {
		c.out.Problems = append(c.out.Problems, Problem{segment, k, fmt.Sprintf(format, args...)})
	}
}

// each reads the records of a kind.
func (c *checker) each(kind byte, fn func(k, v []byte) error) error {
	return c.d.scan(kind, func(k, v []byte) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		return fn(k, v)
	})
}

func (c *checker) keys() error {
	return c.each(kindKey, func(k, v []byte) error {
		e, err := decodeEntry(v)
		if err != nil {
			return err
		}
		c.out.Keys++
		if e.IsAlias() {
			c.out.Aliases++
		}
		return nil
	})
}

// refs finds every reference's keys. There are as many as the keys need, and
// each is one that its key needs, so none is missing.
func (c *checker) refs() error {
	err := c.each(kindRef, func(p, v []byte) error {
		at, t, err := decodeRef(p)
		if err != nil {
			return err
		}
		n, err := decodeRefCount(v)
		if err != nil {
			return err
		}
		c.out.Refs += int64(n)
		c.out.Segments[at.Segment] = true
		return c.ref(ref{at, t, n})
	})
	if want := c.out.Keys + c.out.Aliases; err == nil && c.out.Refs != want {
		c.problem(0, Key{}, "%d references, the keys need %d", c.out.Refs, want)
	}
	return err
}

// ref holds one reference against the keys of its tag.
func (c *checker) ref(r ref) error {
	same, err := c.v.tagged(r.keyTag)
	if err != nil {
		return err
	}
	c.tally.meet(r, same)
	found := uint64(0)
	for _, k := range same {
		if k.Address != r.at && k.Own.Address != r.at {
			continue
		}
		found++
		if k.Address == r.at && c.counted != r.at {
			c.counted = r.at
			c.live[r.at.Segment] += k.Bytes()
		}
	}
	switch {
	case found == r.count:
	case len(same) == 0:
		c.problem(r.at.Segment, Key{Namespace: r.namespace}, "a reference at %v is of a key that is not there", r.at)
	case found == 0:
		c.problem(r.at.Segment, same[0].Key, "a reference at %v is of a key that lies at %v", r.at, same[0].Address)
	default:
		c.problem(r.at.Segment, same[0].Key, "a reference at %v counts %d keys, %d lie there", r.at, r.count, found)
	}
	return nil
}

func (c *checker) liveBytes() error {
	err := c.each(kindSegment, func(k, v []byte) error {
		if len(k) != 9 || len(v) != 8 {
			return errBadRecord
		}
		segment := binary.BigEndian.Uint64(k[1:])
		c.out.Segments[segment] = true
		if got := int64(binary.LittleEndian.Uint64(v)); got != c.live[segment] {
			c.problem(segment, Key{}, "%d live bytes recorded, the keys have %d", got, c.live[segment])
		}
		delete(c.live, segment)
		return nil
	})
	if err != nil {
		return err
	}
	for segment, n := range c.live {
		c.problem(segment, Key{}, "no live bytes recorded, the keys have %d", n)
	}
	return nil
}

// uses holds what is recorded for each namespace against what its keys have.
func (c *checker) uses() error {
	c.tally.close()
	recorded := uses(c.d.Uses())
	if !c.d.countless {
		var err error
		if recorded, err = c.d.readUses(); err != nil {
			return err
		}
	}
	for namespace, want := range c.tally.uses {
		if got := recorded[namespace]; got != want {
			c.problem(0, Key{Namespace: namespace}, "%d blocks with %d bytes recorded for namespace %d, the keys have %d with %d", got.Blocks, got.Bytes, namespace, want.Blocks, want.Bytes)
		}
		delete(recorded, namespace)
	}
	for namespace, got := range recorded {
		c.problem(0, Key{Namespace: namespace}, "%d blocks with %d bytes recorded for namespace %d, which has no keys", got.Blocks, got.Bytes, namespace)
	}
	return nil
}

// contents checks that each content is one that a key of the tenant has, at
// that place.
func (c *checker) contents() error {
	return c.each(kindContent, func(p, v []byte) error {
		if len(p) != contentKeyBytes {
			return errBadRecord
		}
		tenant, t := binary.BigEndian.Uint32(p[1:]), ContentTag(p[5:])
		at, err := decodeAddress(v)
		if err != nil {
			return err
		}
		c.out.Contents++
		return c.content(tenant, t, at)
	})
}

func (c *checker) content(tenant uint32, t ContentTag, at disk.Address) error {
	keys, err := c.v.referrers(at)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Content == t && c.tenantOf(k.Namespace) == tenant {
			return nil
		}
	}
	c.problem(at.Segment, Key{}, "content %x of tenant %d is recorded at %v, where no key of the tenant has it", t, tenant, at)
	return nil
}
