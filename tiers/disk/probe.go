package disk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/internal/hostinfo"
	"github.com/sealstone/sealstone/internal/vfs"
)

// DefaultProbeTimeout bounds a probe as a whole.
const DefaultProbeTimeout = 10 * time.Second

// ProbeOptions sets up a [Probe].
type ProbeOptions struct {
	// FS is the directory. Required.
	FS vfs.FS
	// Quick leaves out what a store does not need to open: the search for
	// the smallest alignments (unless 4096 bytes do not do), preallocation,
	// holes and latencies.
	Quick bool
	// Measure measures the speed of each proven path, for at most a few tenths of a
	// second each. It needs descriptors, and more than MinMeasureBytes of
	// room.
	Measure bool
	// MeasureBytesMax bounds the file that Measure writes. 0 is
	// DefaultMeasureBytes. A twentieth of the free space bounds it too.
	MeasureBytesMax int64
	// ReadOnly writes nothing: what is there is read in all ways and
	// compared.
	ReadOnly bool
	// Timeout bounds the probe as a whole; 0 is DefaultProbeTimeout.
	Timeout time.Duration
	// Progress, if set, is told how many of how many steps are done, from a
	// goroutine of the probe.
	Progress func(done, total int64)
}

// Probe finds out by trying which paths give a directory's bytes back as they
// were written. A path that fails is no error: it stands refused in the
// report. Errors: ErrInvalid, and the cause of ctx where it is canceled.
//
// A step that does not come back is left to the kernel, together with its
// thread, its buffers and the scratch file; paths not proven by then are
// refused. The scratch file is removed at the end; one that a probe left
// behind is taken over by the next.
func Probe(ctx context.Context, o ProbeOptions) (*ProbeReport, error) {
	if o.FS == nil {
		return nil, invalidf("probe: no file system")
	}
	if o.Timeout < 0 || o.MeasureBytesMax < 0 {
		return nil, invalidf("probe: negative limit")
	}
	o.Timeout = orDefault(o.Timeout, DefaultProbeTimeout)
	bounded, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	p := newProber(o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(bounded)
	}()
	select {
	case <-done:
	case <-bounded.Done():
	}
	if ctx.Err() != nil && context.Cause(ctx) != context.DeadlineExceeded {
		return nil, fmt.Errorf("disk: probe: %w", context.Cause(ctx))
	}
	return p.conclude(), nil
}

// prober is a probe at work. Its goroutine alone touches r; what others may
// see are the copies that it publishes after each step.
type prober struct {
	o     ProbeOptions
	r     *ProbeReport
	start time.Time

	file  *scratchFile
	trial *trial

	published atomic.Pointer[ProbeReport]
	step      atomic.Pointer[string] // the one under way; "" when all are done
}

func newProber(o ProbeOptions) *prober {
	p := &prober{o: o, start: time.Now()}
	p.r = &ProbeReport{
		Time: p.start.UTC(), Notes: []string{}, Warnings: []string{},
		Kernel: hostinfo.KernelRelease(), BootID: hostinfo.BootID(), Limits: probeLimits(),
		Uring: ProbeUring{Flags: []string{}, Operations: []ProbeOperation{}, DisabledLevel: -1},
	}
	for _, name := range PathNames() {
		p.r.Paths = append(p.r.Paths, ProbePath{Name: name, State: PathUntried})
	}
	if level, ok := hostinfo.UringDisabled(); ok {
		p.r.Uring.DisabledLevel = level
	}
	first := "begin"
	p.step.Store(&first)
	p.published.Store(p.r.Clone())
	return p
}

func probeLimits() ProbeLimits {
	l := ProbeLimits{
		MemlockBytes: hostinfo.MemlockLimit(), OpenFiles: hostinfo.OpenFilesLimit(),
		CgroupMemoryBytes: hostinfo.Unlimited, NUMANodes: hostinfo.NUMANodes(),
	}
	if m, ok := hostinfo.ReadCgroupMemory(); ok {
		l.CgroupMemoryBytes = m.LimitBytes
	}
	return l
}

// plan lists the steps. Each is told the context only to end early; a step
// that cannot end is left behind by Probe.
func (p *prober) plan() []probeStep {
	steps := []probeStep{
		{"scratch file", p.open},
		{"file system", p.describe},
		{"write and read through the page cache", p.tryBuffered},
		{"write and read past the page cache", p.tryDirect},
		{"search for alignments", p.searchAlignments},
		{"look into the page cache", p.lookIntoCache},
		{"io_uring", p.tryUring},
	}
	if !p.o.Quick {
		steps = append(steps, probeStep{"preallocation and holes", p.tryFile}, probeStep{"fdatasync", p.timeSync},
			probeStep{"scratch files of others", func(context.Context) { p.file.sweep() }})
	}
	if p.o.Measure {
		steps = append(steps, probeStep{"measure", p.measure})
	}
	return steps
}

type probeStep struct {
	name string
	run  func(context.Context)
}

// run does all steps, as far as ctx lets it, and cleans up.
func (p *prober) run(ctx context.Context) {
	defer p.close()
	steps := p.plan()
	for i, s := range steps {
		if ctx.Err() != nil {
			return
		}
		p.step.Store(&s.name)
		s.run(ctx)
		p.published.Store(p.r.Clone())
		if p.o.Progress != nil {
			p.o.Progress(int64(i+1), int64(len(steps)))
		}
	}
	last := ""
	p.step.Store(&last)
}

// conclude makes the report of what is published.
func (p *prober) conclude() *ProbeReport {
	at := *p.step.Load()
	r := p.published.Load().Clone()
	if at != "" {
		reason := fmt.Sprintf("no answer within %v (at: %s)", p.o.Timeout, at)
		for i := range r.Paths {
			if r.Paths[i].State == PathUntried {
				r.Paths[i].State, r.Paths[i].Reason = PathRefused, reason
			}
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("the probe ended with %s: the device stalls, or is very slow", reason))
	}
	r.Choose()
	r.TookMs = float64(time.Since(p.start).Microseconds()) / 1000
	return r
}

// prove and refuse set the state of a path; refuse keeps the first reason.
func (p *prober) prove(name PathName, alignBytes int64) {
	if t := p.r.path(name); t.State == PathUntried {
		t.State, t.Reason, t.AlignmentBytes = PathProven, "", alignBytes
	}
}

func (p *prober) refuse(name PathName, err error) {
	if p.refuseFor(name, err.Error(), errnoName(err)) {
		p.r.path(name).Content = errors.Is(err, errContent)
	}
}

// refuseFor says whether this is the first refusal.
func (p *prober) refuseFor(name PathName, reason, errno string) bool {
	t := p.r.path(name)
	if t.State == PathRefused {
		return false
	}
	*t = ProbePath{Name: name, State: PathRefused, Reason: reason, Errno: errno}
	return true
}

// untried says why a path was not tried.
func (p *prober) untried(name PathName, reason, errno string) {
	if t := p.r.path(name); t.State == PathUntried {
		t.Reason, t.Errno = reason, errno
	}
}

func (p *prober) note(format string, args ...any) {
	p.r.Notes = append(p.r.Notes, fmt.Sprintf(format, args...))
}

func (p *prober) warn(format string, args ...any) {
	p.r.Warnings = append(p.r.Warnings, fmt.Sprintf(format, args...))
}

// close removes the scratch file and frees the memory.
func (p *prober) close() {
	p.file.close()
	p.trial.free()
}
