package gpu

import "time"

// Options bound what a [Device] takes. The zero value of a field is its
// default.
type Options struct {
	// PinnedBytesMax bounds the pinned host memory of TakePinned (64 MiB). It
	// is also the largest buffer that can be had.
	PinnedBytesMax int64
	// PinnedChunkBytes is what is mapped and registered at a time (4 MiB).
	// Registering is slow next to a copy, so it is done rarely.
	PinnedChunkBytes int64
	// StagingBytesMax bounds the device memory that blocks pass through on
	// their way from and to the host (64 MiB). It is also the largest block.
	StagingBytesMax int64
	// LandingBytesMax bounds the device memory that cuFile reads into
	// (64 MiB), and so the largest direct read. It is registered with the
	// file system's driver and takes as much of the GPU's BAR. As much again,
	// not registered, is where what landed is verified.
	LandingBytesMax int64
	// Streams is how many groups of copies run at once (4), each on a CUDA
	// stream and a goroutine of its own.
	Streams int
	// ReadsMax is how many direct reads run at once over all routes (8). Each
	// takes a thread while it runs.
	ReadsMax int
	// HandlesMax bounds the files that one route keeps open and registered
	// with cuFile (64).
	HandlesMax int
	// SetAsideMax bounds the direct reads that hung and whose buffer,
	// descriptor and handle are set aside for good (8). Past it all routes of
	// the device are banned.
	SetAsideMax int
	// DirectErrorsMax is how many direct reads may fail in a row, otherwise
	// than by wrong bytes, before their route is demoted (4).
	DirectErrorsMax int
	// HangTimeout is how long one call of a driver may take, and one step of a
	// copy (10 s), and up to half of that more, as the whole process may have
	// stood still. A CUDA call beyond it means that the device is lost, a
	// cuFile call that its route is banned. It also bounds the wait for a
	// buffer under a context without a deadline.
	HangTimeout time.Duration
	// VerifyOnDevice has the kernel verify blocks in staging as well that
	// reach the device from the host, where their sums were compared already:
	// this finds what the bus did. It needs a proven kernel.
	VerifyOnDevice bool
	// CuFileLogDir is where cuFile keeps its log, which it would else put into
	// the working directory: a temporary directory, by default.
	CuFileLogDir string
	// NUMANode is where pinned memory comes from: as the kernel says for the
	// GPU's PCI address (0, the default), anywhere (-1), or node n-1.
	NUMANode int
	// Events, if set, is told of what an operator should know: a route
	// demoted or banned, the device lost. It must not block, and not call the
	// device.
	Events func(Event)
	// Clock is the time (the system's).
	Clock Clock
}

const (
	defaultPoolBytes       = 64 << 20
	defaultPinnedChunk     = 4 << 20
	defaultStreams         = 4
	defaultReadsMax        = 8
	defaultHandlesMax      = 64
	defaultSetAsideMax     = 8
	defaultDirectErrorsMax = 4
	defaultHangTimeout     = 10 * time.Second
)

func (o Options) withDefaults() Options {
	orElse(&o.PinnedBytesMax, defaultPoolBytes)
	orElse(&o.PinnedChunkBytes, defaultPinnedChunk)
	orElse(&o.StagingBytesMax, defaultPoolBytes)
	orElse(&o.LandingBytesMax, defaultPoolBytes)
	orElse(&o.Streams, defaultStreams)
	orElse(&o.ReadsMax, defaultReadsMax)
	orElse(&o.HandlesMax, defaultHandlesMax)
	orElse(&o.SetAsideMax, defaultSetAsideMax)
	orElse(&o.DirectErrorsMax, defaultDirectErrorsMax)
	orElse(&o.HangTimeout, defaultHangTimeout)
	o.PinnedChunkBytes = min(roundUp(o.PinnedChunkBytes, pinnedUnitBytes), o.PinnedBytesMax)
	o.HandlesMax = max(o.HandlesMax, o.ReadsMax) // each read has one in use
	if o.Clock == nil {
		o.Clock = systemClock{}
	}
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	return o
}

// orElse sets a bound that was not given, or that cannot be one.
func orElse[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v <= 0 {
		*v = otherwise
	}
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
