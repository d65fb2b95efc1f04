package disk

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// PathName names a way in which the bytes of a file are moved.
type PathName string

// The paths, in the order of preference where nothing else decides.
const (
	PathUring    PathName = "uring"    // io_uring past the page cache
	PathPread    PathName = "pread"    // pread(2) and pwrite(2) past the page cache
	PathBuffered PathName = "buffered" // pread(2) and pwrite(2) through the page cache
)

// PathNames returns all paths in the order of preference.
func PathNames() []PathName { return []PathName{PathUring, PathPread, PathBuffered} }

// PathState is what a probe found out about a path.
type PathState string

// The states of a path.
const (
	PathProven  PathState = "proven"  // bytes went through it and came back
	PathRefused PathState = "refused" // it was tried and is not to be used
	PathUntried PathState = "untried" // it could not be tried
)

// ProbePath is a path and what was found out about it. The names of the JSON
// fields of all types here are kept: programs read them.
type ProbePath struct {
	Name  PathName  `json:"name"`
	State PathState `json:"state"`
	// Reason says why the path is refused or untried; empty if proven.
	Reason string `json:"reason"`
	// Errno is the name of the system's error behind Reason ("EPERM"), or
	// empty where no system call failed.
	Errno string `json:"errno"`
	// Content: it was refused because other bytes came back than were written.
	Content bool `json:"content"`
	// AlignmentBytes is what memory, offset and length of an I/O were
	// multiples of: 1 where anything goes, 0 where nothing was proven.
	AlignmentBytes int64 `json:"alignment_bytes"`
	// ReadMiBs and WriteMiBs are measured over a moment, 1 MiB at a time, 8
	// in flight, writes with the fdatasync after them; CPUSecondsPerGiB is
	// that of the whole process while it read. All are 0 where nothing was
	// measured.
	ReadMiBs         float64 `json:"read_mib_s"`
	WriteMiBs        float64 `json:"write_mib_s"`
	CPUSecondsPerGiB float64 `json:"cpu_s_per_gib"`
}

// ProbeReport is what a directory can do, found out by trying. It is plain
// data: a copy may be kept, and proves nothing about a later moment.
type ProbeReport struct {
	// Paths are all paths, in the order of PathNames.
	Paths []ProbePath `json:"paths"`
	// Chosen is the path to use: the fastest that is proven. Empty if none is.
	Chosen PathName `json:"chosen"`
	// ChosenBecause is the reason in a few words.
	ChosenBecause string `json:"chosen_because"`

	Filesystem ProbeFilesystem `json:"filesystem"`
	Direct     ProbeDirect     `json:"direct"`
	Uring      ProbeUring      `json:"uring"`
	File       ProbeFile       `json:"file"`
	Limits     ProbeLimits     `json:"limits"`

	// Notes are facts worth knowing, Warnings ask for something to be done.
	Notes    []string `json:"notes"`
	Warnings []string `json:"warnings"`

	// ReadOnly: nothing was written; what is proven is proven for reads.
	ReadOnly bool      `json:"read_only"`
	Kernel   string    `json:"kernel"`
	BootID   string    `json:"boot_id"`
	Time     time.Time `json:"time"`
	// TookMs is how long the probe took, in milliseconds.
	TookMs float64 `json:"took_ms"`
}

// ProbeFilesystem is the file system of the directory.
type ProbeFilesystem struct {
	Type string `json:"type"` // as in mount(8); empty where the system does not tell
	// DeviceID is "major:minor"; empty where there is no descriptor to ask.
	DeviceID string `json:"device_id"`
	Network  bool   `json:"network"` // a network or FUSE file system
	Memory   bool   `json:"memory"`  // it keeps files in memory
	// The sectors of the device, 0 where there is none to ask.
	LogicalSectorBytes  int64 `json:"logical_sector_bytes"`
	PhysicalSectorBytes int64 `json:"physical_sector_bytes"`
	TotalBytes          int64 `json:"total_bytes"`
	AvailableBytes      int64 `json:"available_bytes"`
}

// ProbeDirect is about I/O past the page cache: what the kernel says that it
// needs, and what really worked.
type ProbeDirect struct {
	// Told: statx(2) answered STATX_DIOALIGN. The sizes are zero where there
	// is no direct I/O on the file; ReadOffset is 0 where it is not told.
	Told                bool  `json:"statx_told"`
	ToldMemBytes        int64 `json:"statx_mem_align_bytes"`
	ToldOffsetBytes     int64 `json:"statx_offset_align_bytes"`
	ToldReadOffsetBytes int64 `json:"statx_read_offset_align_bytes"`
	// The smallest alignments of memory, file offset and length, of 512 to
	// 65536, with which reads and writes gave the right bytes while the other
	// two were generous. 0: not searched for, or none worked.
	MemBytes    int64 `json:"mem_align_bytes"`
	OffsetBytes int64 `json:"offset_align_bytes"`
	LengthBytes int64 `json:"length_align_bytes"`
	// ReadsCached and WritesCached: bytes that should have gone past the page
	// cache were found in it.
	ReadsCached  bool `json:"reads_cached"`
	WritesCached bool `json:"writes_cached"`
}

// ProbeUring is about io_uring.
type ProbeUring struct {
	// Setup: a ring was made. Flags are the options that it was granted.
	Setup bool     `json:"setup"`
	Flags []string `json:"flags"`
	// DisabledLevel is the sysctl kernel.io_uring_disabled, -1 where there is
	// none.
	DisabledLevel int `json:"disabled_level"`
	// Operations are the ones tried, in order.
	Operations []ProbeOperation `json:"operations"`
}

// ProbeOperation is one kind of request that was tried on a ring, its bytes
// compared.
type ProbeOperation struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason"` // empty if OK
	Errno  string `json:"errno"`
}

// ProbeFile is about what a file of the directory does beside moving bytes.
// Everything is false or 0 where it was not tried.
type ProbeFile struct {
	// Preallocates: fallocate(2) gave real blocks. PreallocationKept: writing
	// into them took no further ones.
	Preallocates      bool `json:"preallocates"`
	PreallocationKept bool `json:"preallocation_kept"`
	// HolesReadZero: a hole reads as zeros, past the page cache too.
	// FindsHoles: lseek(2) tells holes from data.
	HolesReadZero bool `json:"holes_read_zero"`
	FindsHoles    bool `json:"finds_holes"`
	// SyncUs is the median time of fdatasync(2) after a write of 4 KiB, in
	// microseconds.
	SyncUs float64 `json:"fdatasync_us"`
	// DropsCache and StartsWriteback: posix_fadvise(2) and
	// sync_file_range(2), which bound the page cache, are accepted.
	DropsCache      bool `json:"drops_cache"`
	StartsWriteback bool `json:"starts_writeback"`
}

// ProbeLimits are those of the process and its control group, in bytes or
// numbers; -1 is no limit.
type ProbeLimits struct {
	MemlockBytes      int64 `json:"memlock_bytes"`
	OpenFiles         int64 `json:"open_files"`
	CgroupMemoryBytes int64 `json:"cgroup_memory_bytes"`
	NUMANodes         int   `json:"numa_nodes"`
}

// Path returns what was found out about a path; of an unknown one that it is
// untried.
func (r *ProbeReport) Path(name PathName) ProbePath {
	if p := r.path(name); p != nil {
		return *p
	}
	return ProbePath{Name: name, State: PathUntried, Reason: "no such path"}
}

func (r *ProbeReport) path(name PathName) *ProbePath {
	for i := range r.Paths {
		if r.Paths[i].Name == name {
			return &r.Paths[i]
		}
	}
	return nil
}

// Proven says whether a path may be used.
func (r *ProbeReport) Proven(name PathName) bool { return r.Path(name).State == PathProven }

// DirectRefusal says why I/O past the page cache is not to be used, or "".
func (r *ProbeReport) DirectRefusal() string {
	switch p := r.Path(PathPread); {
	case p.State == PathProven:
		return ""
	case p.Reason != "":
		return p.Reason
	default:
		return string(p.State)
	}
}

// Clone returns a copy that shares nothing with r; of nil it is nil.
func (r *ProbeReport) Clone() *ProbeReport {
	if r == nil {
		return nil
	}
	c := *r
	c.Paths = slices.Clone(r.Paths)
	c.Uring.Flags = slices.Clone(r.Uring.Flags)
	c.Uring.Operations = slices.Clone(r.Uring.Operations)
	c.Notes, c.Warnings = slices.Clone(r.Notes), slices.Clone(r.Warnings)
	return &c
}

// Summary is the report in one line.
func (r *ProbeReport) Summary() string {
	var b strings.Builder
	for i, p := range r.Paths {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s %s", p.Name, p.State)
		switch {
		case p.State != PathProven:
			fmt.Fprintf(&b, " (%s)", p.Reason)
		case p.AlignmentBytes > 1:
			fmt.Fprintf(&b, " at %d bytes", p.AlignmentBytes)
		}
	}
	if r.Chosen == "" {
		return b.String() + "; none chosen: " + r.ChosenBecause
	}
	return fmt.Sprintf("%s; chosen %s: %s", b.String(), r.Chosen, r.ChosenBecause)
}
