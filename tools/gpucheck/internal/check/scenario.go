package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
)

// Documents of the scenarios; a block is as long as one of a model of some
// billion parameters.
const (
	scenarioDocuments  = 3
	scenarioBlockBytes = 1 << 20
)

// scenarios plays the founding reports on every device, and sums them up.
func (r *runner) scenarios(ctx context.Context, d *driver.Driver, devices []*device, stores map[string]string) {
	played := 0
	for _, dev := range devices {
		v := r.report.gpu(dev.uuid).Verdict
		if r.try(ctx, "founding scenarios", dev.uuid, limitScenario, func(ctx context.Context) (apply, error) {
			s := &stage{device: dev, dir: stores[dev.uuid], blocks: r.config.Blocks, during: r.config.MeasureFor}
			err := s.play(ctx, d, v)
			return func(p *Report) {
				p.Scenarios = append(p.Scenarios, s.played...)
				g := p.gpu(dev.uuid)
				g.StoreSpeed, g.Route = s.speeds, s.route
			}, err
		}) {
			played++
		}
	}
	if played == 0 {
		return
	}
	wrong := slices.ContainsFunc(r.report.Scenarios, func(s Scenario) bool { return !s.Held })
	r.report.Scenarios = append(r.report.Scenarios, Scenario{
		Name: "report 2: each GPU by itself", Held: !wrong,
		Outcome: fmt.Sprintf("%d of %d GPUs have only right bytes, compared in the memory of each; %d have a proven direct path",
			played, len(devices), proven(r.report.GPUs)),
	})
}

func proven(gpus []GPU) int {
	n := 0
	for _, g := range gpus {
		if g.Verdict != nil && g.Verdict.State == gpu.VerdictProven {
			n++
		}
	}
	return n
}

// play stores documents from device memory and reads them back into it, one
// over the other. Then it damages a block.
func (s *stage) play(ctx context.Context, d *driver.Driver, v *gpu.Verdict) (err error) {
	if err := s.open(ctx, d, v); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	for doc := range scenarioDocuments {
		if err := s.put(ctx, doc); err != nil {
			return err
		}
	}
	if err := s.store.Flush(ctx); err != nil {
		return err
	}
	if err := s.scene(ctx, "report 1: a document, others, the document again", s.report1); err != nil {
		return err
	}
	if err := s.scene(ctx, "a range of a block", s.ranges); err != nil {
		return err
	}
	if err := s.measure(ctx); err != nil {
		return err
	}
	return s.scene(ctx, "a damaged block", s.damaged)
}

// scene plays one scenario. One that could not be played to its end, for another
// reason than wrong bytes, is none.
func (s *stage) scene(ctx context.Context, name string, f func(context.Context) (string, error)) error {
	outcome, err := f(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case err == nil:
		s.played = append(s.played, Scenario{Name: name, GPU: s.device.uuid, Outcome: outcome, Held: true})
	case errors.Is(err, errBroken):
		s.played = append(s.played, Scenario{Name: name, GPU: s.device.uuid, Outcome: err.Error()})
	}
	return err
}

// report1: document A, then others over the same memory, then A again, each
// time all bytes of the right document. A served block of another request is
// what the first report was about.
func (s *stage) report1(ctx context.Context) (string, error) {
	ways := map[string]int{}
	for _, hostOnly := range []bool{false, true} {
		for _, doc := range []int{0, 1, 2, 0} {
			n, err := s.getAll(ctx, doc, hostOnly)
			if err != nil {
				return "", err
			}
			for way, blocks := range n {
				ways[way] += blocks
			}
		}
	}
	var by []string
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		by = append(by, fmt.Sprintf("%d by %s", ways[way], way))
	}
	return "every byte is the document's own; blocks: " + strings.Join(by, ", "), nil
}

// getAll reads a document over poison and compares it.
func (s *stage) getAll(ctx context.Context, doc int, hostOnly bool) (ways map[string]int, err error) {
	if err := s.poison(byte(0xe0 + doc)); err != nil {
		return nil, err
	}
	ways = map[string]int{}
	for i, res := range s.get(ctx, doc, hostOnly) {
		if res.Status != engine.StatusOK {
			return nil, fmt.Errorf("block %d of document %d: %w", i, doc, res.Err)
		}
		ways[res.Path.String()]++
	}
	now, err := s.memory()
	if err != nil {
		return nil, err
	}
	if at := differ(now, s.documents[doc]); at >= 0 {
		return nil, brokenf("document %d, host only %t: all blocks are OK, and byte %d of block %d is wrong",
			doc, hostOnly, at%scenarioBlockBytes, at/scenarioBlockBytes)
	}
	return ways, nil
}

// ranges reads a part of a block to an address that nothing is aligned to, and
// looks at what lies around it.
func (s *stage) ranges(ctx context.Context) (string, error) {
	const offset, length, at, poison = 12345, 70001, 4099, 0x77
	if err := s.poison(poison); err != nil {
		return "", err
	}
	res := s.space.GetToDevice(ctx, s.gpu, []engine.DeviceGetBlock{{Hash: hashOf(0, 0), Parts: []engine.DevicePart{{
		OffsetBytes: offset, LengthBytes: length, Spans: []gpu.Span{{Ptr: s.arena + at, LengthBytes: length}},
	}}}}, engine.DeviceGetOptions{})[0]
	if res.Status != engine.StatusOK {
		return "", fmt.Errorf("a range of a block: %w", res.Err)
	}
	now, err := s.memory()
	if err != nil {
		return "", err
	}
	want := bytes.Repeat([]byte{poison}, len(now))
	copy(want[at:], s.documents[0][offset:][:length])
	if i := differ(now, want); i >= 0 {
		return "", brokenf("a range of %d bytes at %d: byte %d of device memory is wrong", length, at, i)
	}
	return fmt.Sprintf("%d bytes at an odd address are right, and none around them changed", length), nil
}

// damaged flips a bit of a stored block. That block must be a miss, its
// destination must hold what it held, and the others must come.
func (s *stage) damaged(ctx context.Context) (string, error) {
	const poison = 0x99
	if err := s.reopenDamaged(ctx, s.documents[0][:scenarioBlockBytes]); err != nil {
		return "", err
	}
	if err := s.poison(poison); err != nil {
		return "", err
	}
	results := s.get(ctx, 0, false)
	now, err := s.memory()
	if err != nil {
		return "", err
	}
	if results[0].Status == engine.StatusOK {
		return "", brokenf("a block with a flipped bit on disk is OK")
	}
	want := append(bytes.Repeat([]byte{poison}, scenarioBlockBytes), s.documents[0][scenarioBlockBytes:]...)
	for i, res := range results[1:] {
		if res.Status != engine.StatusOK {
			return "", fmt.Errorf("block %d, which is not damaged: %w", i+1, res.Err)
		}
	}
	if at := differ(now, want); at >= 0 {
		return "", brokenf("byte %d of block %d is wrong", at%scenarioBlockBytes, at/scenarioBlockBytes)
	}
	return fmt.Sprintf("it is %v, its destination untouched; the other %d came", results[0].Status, len(results)-1), nil
}

// differ is the first place where a and b differ, or -1.
func differ(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func hashOf(doc, block int) []byte {
	h := sha256.Sum256(fmt.Appendf(nil, "gpucheck document %d block %d", doc, block))
	return h[:]
}

// flipStored flips one bit of a block in the files below dir, which holds a
// closed store. The block is found by its bytes.
func flipStored(dir string, block []byte) error {
	found := errors.New("found")
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(path) != ".seg" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.Index(b, block)
		if at < 0 {
			return nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		at += len(block) / 2
		_, err = f.WriteAt([]byte{b[at] ^ 1}, int64(at))
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return err
		}
		return found
	})
	switch {
	case errors.Is(err, found):
		return nil
	case err != nil:
		return err
	}
	return errors.New("the block is in no segment")
}
