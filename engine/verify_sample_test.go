package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/tiers/disk"
)

// TestVerifyParts: the parts together read every extent once.
func TestVerifyParts(t *testing.T) {
	fs := verifyStore(t)
	whole := wantClean(t, fs)
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.IntRange(1, 6).Draw(r, "parts")
		seed := rapid.Uint64().Draw(r, "seed")
		read := map[string]int{}
		var notRead int64
		for part := 1; part <= parts; part++ {
			got, rep := verdictsOf(t, fs, VerifyOptions{Sample: Sample{Part: part, Parts: parts, Seed: seed}})
			if rep.Damaged != 0 || rep.Blocks != 7 || rep.Index.Keys != 7 || rep.Sample == nil {
				r.Fatalf("part %d: %+v", part, rep)
			}
			s := rep.Segments
			if sum := s.HeaderBytes + s.LiveBytes + s.AliasBytes + s.DeadBytes + s.GapBytes + s.FooterBytes + s.TailBytes + s.PassedBytes; sum != s.FileBytes {
				r.Fatalf("part %d: the parts add up to %d bytes of %d: %+v", part, sum, s.FileBytes, s)
			}
			notRead += rep.NotReadBytes
			for name, list := range got {
				for _, v := range list {
					if !strings.HasSuffix(v, string(VerdictNotRead)) {
						read[name+" "+v]++
					}
				}
			}
		}
		for what, n := range read {
			if n != 1 {
				r.Errorf("%s was read %d times in %d parts", what, n, parts)
			}
		}
		if len(read) != 12 {
			r.Errorf("%d extents were read: %v", len(read), read)
		}
		w := whole.Segments
		if want := int64(parts-1) * (w.LiveBytes + w.AliasBytes + w.DeadBytes + w.GapBytes + w.TailBytes); notRead != want {
			r.Errorf("%d bytes were left out in all, want %d", notRead, want)
		}
	})
}

// TestVerifySampleFinds: damage is found by the part that has it, and by no
// other.
func TestVerifySampleFinds(t *testing.T) {
	fs := verifyStore(t)
	l := mustLocate(t, fs, 4)
	flipAt(t, fs, l.File, l.PayloadOffset)
	found := int64(0)
	for part := 1; part <= 5; part++ {
		_, r := verdictsOf(t, fs, VerifyOptions{Sample: Sample{Part: part, Parts: 5}})
		found += r.Damaged
	}
	if found != 1 {
		t.Errorf("found %d times in 5 parts", found)
	}
	// What is about the store as a whole every sample finds.
	flipAt(t, fs, disk.SidecarName(l.Segment), 512+40)
	for _, s := range []Sample{{Part: 1, Parts: 1000}, {Share: 1e-9}, {Bytes: 1}} {
		if _, r := verdictsOf(t, fs, VerifyOptions{Sample: s}); r.Damaged != 1 || r.Damage[0].Kind != DamageTombstones || r.Namespaces[0].NotReadBlocks != 7 {
			t.Errorf("%+v: %v, %+v", s, r.Damage, r.Namespaces)
		}
	}
}

// TestSampleShare: a share and a size read about as much as they say.
func TestSampleShare(t *testing.T) {
	v := &verifier{o: VerifyOptions{Sample: Sample{Share: 0.05, Seed: 7}}}
	v.share = v.o.Sample.share(1 << 40)
	in := 0
	for i := range 100_000 {
		if v.sampled(uint64(i%100), uint32(i)) {
			in++
		}
	}
	if in < 4700 || in > 5300 {
		t.Errorf("5 %% of 100000 are %d", in)
	}
	half := Sample{Bytes: 1 << 39}
	if got := half.share(1 << 40); got < 1<<63-1<<40 || got > 1<<63+1<<40 {
		t.Errorf("half of the bytes are %x", got)
	}
	if got := half.share(1 << 30); got != 1<<64-1 {
		t.Errorf("more bytes than there are: %x", got)
	}
}

func TestSampleRefuses(t *testing.T) {
	for _, s := range []Sample{{Share: 1}, {Share: -0.1}, {Share: 0.1, Bytes: 1}, {Bytes: -1}, {Part: 1}, {Part: 3, Parts: 2}, {Part: 0, Parts: 2}, {Share: 0.5, Part: 1, Parts: 2}} {
		if _, err := Verify(context.Background(), t.TempDir(), VerifyOptions{Sample: s}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// TestVerifyInterrupted: whenever the context ends, the report says what was
// not read, and nothing is called damaged for it.
func TestVerifyInterrupted(t *testing.T) {
	fs := verifyStore(t)
	whole := wantClean(t, fs)
	for after := range 8 {
		ctx, cancel := context.WithCancel(context.Background())
		calls := 0
		o := VerifyOptions{Workers: 1, BytesPerSecond: 1 << 40, Block: func(BlockVerdict) error {
			if calls++; calls > after {
				cancel()
			}
			return nil
		}}
		r, err := verify(ctx, "mem", o, testOptions(fs).private)
		cancel()
		if !errors.Is(err, context.Canceled) || r == nil || !r.Interrupted {
			t.Fatalf("after %d: %v, %+v", after, err, r)
		}
		if r.Damaged != 0 || r.NotReadBytes <= 0 || r.NotReadBytes+r.Segments.FileBytes != whole.Segments.FileBytes || r.Index.Keys != 7 {
			t.Errorf("after %d: %+v, %v", after, r, fmt.Sprint(r.Damage))
		}
	}
	// One that has ended from the beginning.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := verify(ctx, "mem", VerifyOptions{}, testOptions(fs).private)
	if !errors.Is(err, context.Canceled) || r == nil || r.NotReadBytes != whole.Segments.FileBytes || r.Damaged != 0 {
		t.Errorf("%v, %+v", err, r)
	}
}
