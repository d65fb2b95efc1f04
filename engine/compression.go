package engine

import (
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/tiers/disk"
)

// Compression says how a namespace handle stores the blocks that are put
// through it. It is the writer's choice and kept nowhere: each extent names
// its codec, so readers need to know nothing.
type Compression uint8

const (
	// CompressionOff stores blocks as they are: gets may read straight into
	// the caller's memory.
	CompressionOff Compression = iota
	// CompressionAuto samples blocks now and then, and compresses with S2
	// while that saves at least NamespaceOptions.MinSavingShare.
	CompressionAuto
	// CompressionS2 is fast and finds repetitions only.
	CompressionS2
	// CompressionZstd is several times slower than S2 and also shortens what
	// merely has a skewed distribution, such as the exponents of numbers.
	CompressionZstd
)

var compressionNames = [...]string{"off", "auto", "s2", "zstd"}

func (c Compression) String() string {
	if int(c) < len(compressionNames) {
		return compressionNames[c]
	}
	return fmt.Sprintf("compression %d", uint8(c))
}

// CompressionState is what a handle does at the moment.
type CompressionState struct {
	Mode Compression
	// Active: blocks put now are compressed. With CompressionAuto it follows
	// the latest sample.
	Active bool
	// SavingShare is what the latest sample, or with Active the latest blocks,
	// saved: 0.25 means that a quarter of the bytes went away. Negative: there
	// was no sample yet. It is counted before padding to pages.
	SavingShare float64
	// Decisions counts how often CompressionAuto judged.
	Decisions int64
}

const (
	defaultMinSaving = 0.10
	// autoSampleBlocks are sampled before CompressionAuto judges, of each the
	// first chunk of at most autoSampleChunks planes.
	autoSampleBlocks = 16
	autoSampleChunks = 4
	// autoPeriodBlocks is how many blocks a judgement lasts. While blocks are
	// compressed it comes from what they saved, and costs nothing.
	autoPeriodBlocks = 1024
)

// compressor decides for a handle whether a block is compressed. Handles of
// later epochs share it.
type compressor struct {
	mode      Compression
	minSaving float64

	mu     sync.Mutex
	active bool
	share  float64 // -1: none yet
	judged int64
	// Blocks still to be sampled, or, when that is 0, still to be put under
	// the judgement; and what they came to.
	sampling, lasting int
	raw, stored       int64
}

func newCompressor(o NamespaceOptions) *compressor {
	c := &compressor{mode: o.Compression, minSaving: o.MinSavingShare, share: -1}
	if c.minSaving == 0 {
		c.minSaving = defaultMinSaving
	}
	c.active = c.mode == CompressionS2 || c.mode == CompressionZstd
	c.sampling = autoSampleBlocks
	return c
}

// codec is that of blocks put now, CodecRaw if they are not compressed; sample
// asks that the block be sampled beside.
func (c *compressor) codec() (codec uint8, sample bool) {
	switch c.mode {
	case CompressionS2:
		return disk.CodecS2, false
	case CompressionZstd:
		return disk.CodecZstd, false
	case CompressionAuto:
	default:
		return disk.CodecRaw, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active {
		return disk.CodecS2, false
	}
	return disk.CodecRaw, c.sampling > 0
}

// autoCodec is what CompressionAuto tries.
const autoCodec = disk.CodecS2

// note takes over what a block, or a sample of it, came to. It reports whether
// that changed what is done with the next ones.
func (c *compressor) note(raw, stored int64) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.stored = c.raw+raw, c.stored+stored
	if c.mode != CompressionAuto {
		c.share = 1 - float64(c.stored)/float64(c.raw)
		return false
	}
	if c.active {
		c.lasting--
	} else {
		c.sampling--
	}
	if c.active && c.lasting > 0 || !c.active && c.sampling > 0 {
		return false
	}
	was := c.active
	c.share = 1 - float64(c.stored)/float64(c.raw)
	c.active = c.share >= c.minSaving
	c.judged++
	c.raw, c.stored, c.sampling, c.lasting = 0, 0, 0, autoPeriodBlocks
	return c.active != was || c.judged == 1
}

// passed counts a block that was stored raw under a judgement.
func (c *compressor) passed() {
	if c.mode != CompressionAuto {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active || c.sampling > 0 {
		return
	}
	if c.lasting--; c.lasting <= 0 {
		c.sampling = autoSampleBlocks
	}
}

func (c *compressor) state() CompressionState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CompressionState{Mode: c.mode, Active: c.active, SavingShare: c.share, Decisions: c.judged}
}

// Compression tells what the handle does with the blocks put through it.
func (n *Namespace) Compression() CompressionState {
	st := n.compress.state()
	st.Active = st.Active && !n.gpuDirect()
	return st
}

// checkCompression checks the options of a handle.
func (o *NamespaceOptions) checkCompression() error {
	switch {
	case o.Compression > CompressionZstd:
		return invalidf("NamespaceOptions.Compression %d is none", o.Compression)
	case o.MinSavingShare < 0 || o.MinSavingShare >= 1:
		return invalidf("NamespaceOptions.MinSavingShare %v must lie in 0..1", o.MinSavingShare)
	case o.GPUDirect && o.Compression != CompressionOff:
		return invalidf("NamespaceOptions: a namespace marked GPUDirect is never compressed: leave Compression (%v) off", o.Compression)
	}
	return nil
}
