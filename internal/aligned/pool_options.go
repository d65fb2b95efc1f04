package aligned

import "time"

// Options are what a pool is made of.
type Options struct {
	// LimitBytes bounds what is given out and cached together.
	LimitBytes int64
	// KeepBytes is the low-water mark: idle memory above it goes back to the
	// kernel. The default is an eighth of the limit; negative keeps nothing.
	KeepBytes int64
	// IdleInterval is how long memory lies idle, at least once and at most
	// twice, before it goes back. The default is 10 s; negative keeps it.
	IdleInterval time.Duration
	// HugeTLB tries pages set apart by the administrator (vm.nr_hugepages)
	// before transparent ones. They go back to the kernel in whole slabs only:
	// pieces of a slab in use stay, and may pass the limit by what is free
	// there.
	HugeTLB bool
	// SmallPages asks for no huge pages; it is there to measure with.
	SmallPages bool
	// RecordSites has Close name where leaked buffers were taken. It costs a
	// walk of the stack per Get.
	RecordSites bool

	sysNodes string                     // instead of nodesDir
	node     func() int                 // instead of currentNode
	populate func([]byte) (bool, error) // instead of populate
}

const (
	// slabBytesMax is a balance: a slab amortises its mapping over many
	// buffers, and a few buffers that stay pin no more than one.
	slabBytesMax        = 32 << 20
	keepShare           = 8
	defaultIdleInterval = 10 * time.Second
)

// NewPool makes a pool that holds at most limitBytes, with the defaults of
// Options.
func NewPool(limitBytes int64) *Pool { return New(Options{LimitBytes: limitBytes}) }

// New makes a pool. It maps nothing yet.
func New(o Options) *Pool {
	if o.KeepBytes == 0 {
		o.KeepBytes = o.LimitBytes / keepShare
	}
	if o.IdleInterval == 0 {
		o.IdleInterval = defaultIdleInterval
	}
	if o.sysNodes == "" {
		o.sysNodes = nodesDir
	}
	if o.node == nil {
		o.node = currentNode
	}
	if o.populate == nil {
		o.populate = populate
	}
	p := &Pool{o: o, nodes: nodeCount(o.sysNodes)}
	p.kind, p.hugeReason = HugeTHP, thpRefusal()
	switch {
	case o.SmallPages:
		p.hugeReason = "small pages were asked for"
	case o.LimitBytes < HugePageBytes:
		p.hugeReason = "the limit is below one huge page"
	}
	unit := HugePageBytes
	if p.hugeReason != "" {
		p.kind, unit = HugeNone, unitBytes
	}
	p.slabBytes = roundUp(int(min(max(o.LimitBytes, 1), slabBytesMax)), unit)
	if o.RecordSites {
		p.live = map[*Buffer]struct{}{}
	}
	return p
}

// SetLimit changes the limit. What is in use stays; requests wait until it is
// below the new limit.
func (p *Pool) SetLimit(limitBytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.o.LimitBytes = limitBytes
	p.squeeze(max(0, limitBytes-p.inUseBytes))
	p.serve()
}

// TakenBytes is what a buffer of sizeBytes takes of a pool's limit.
func TakenBytes(sizeBytes int) int64 { return bytesOf(classPages(sizeBytes)) }
