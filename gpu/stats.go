package gpu

// PathStats count blocks, and the bytes of their moves, on one path.
type PathStats struct {
	Attempted      int64
	AttemptedBytes int64
	// Done have arrived; of them Verified were verified in device memory (of
	// CopyOut: their sums were taken there).
	Done          int64
	DoneBytes     int64
	Verified      int64
	VerifiedBytes int64
	// Corrupt had bytes that did not match their sum: never in Done.
	Corrupt int64
	// Failed are the others that did not arrive.
	Failed int64
	// FellBack were served by the host path after this one failed, as the
	// caller tells by [Device.CountFellBack].
	FellBack      int64
	FellBackBytes int64
}

// PoolStats are one kind of memory.
type PoolStats struct {
	LimitBytes int64
	HeldBytes  int64 // mapped or allocated, and registered
	InUseBytes int64
	// SetAsideBytes are in use for good, by calls that did not return.
	SetAsideBytes int64
	Waits         int64 // requests that found no room at once
	Refused       int64 // requests that got none
	GrowFailed    int64 // times that the driver gave no more memory
}

// Stats are the counters of a Device since it was opened.
type Stats struct {
	HostIn, HostOut, Direct              PathStats
	Pinned, Staging, Landing, Inspection PoolStats
	// Copies and KernelRuns were enqueued, Flushes waited for.
	Copies, CopiedBytes, KernelRuns, Flushes int64
	// KernelFaults are answers of the kernel that cannot be.
	KernelFaults int64
	// Reads of cuFile that began, failed, were short, and hung.
	Reads, ReadErrors, ReadsShort, ReadsHung int64
	// SetAside are hung reads whose buffer, descriptor and handle are kept.
	SetAside               int64
	RoutesDemoted          int64
	RoutesBanned           int64
	HandlesOpen            int64
	HandlesEvicted         int64
	HandleRegisterRefusals int64
	DeviceLost             bool
}
