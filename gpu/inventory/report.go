package inventory

// Unknown is the value of a NUMA node, an ordinal or an index that was not
// told. It is never node 0.
const Unknown = -1

// Report is what Read found. Lists are never nil.
type Report struct {
	NVML        NVML        `json:"nvml"`
	Module      Module      `json:"kernel_module"`
	GPUs        []GPU       `json:"gpus"`
	Links       []Link      `json:"links"`
	Directories []Directory `json:"directories"`
	Pairs       []Pair      `json:"pairs"`
	Virtual     Virtual     `json:"virtual"`
	IOMMU       IOMMU       `json:"iommu"`
	NVIDIAFS    NVIDIAFS    `json:"nvidia_fs"`
	P2PDMA      P2PDMA      `json:"p2pdma"`
	// Gates are the reasons for which libcufile is not to be loaded on this
	// host at all; none is good.
	Gates []string `json:"gates"`
	// KernelRelease is that of uname -r.
	KernelRelease string `json:"kernel"`
}

// GPU is one device. Strings are empty, numbers 0, and nodes, ordinals and
// indices Unknown where nothing told them.
type GPU struct {
	UUID string `json:"uuid"` // as NVML writes it: "GPU-" and 36 characters
	Name string `json:"name"`
	// Ordinal is CUDA's number of the device in this process. It differs from
	// NVML's index and changes with CUDA_VISIBLE_DEVICES.
	Ordinal   int `json:"cuda_ordinal"`
	NVMLIndex int `json:"nvml_index"`
	// PCI is the address as /sys writes it, with a domain of four digits.
	PCI      string `json:"pci"`
	NUMANode int    `json:"numa_node"`

	ComputeMajor int   `json:"compute_major"`
	ComputeMinor int   `json:"compute_minor"`
	MemoryBytes  int64 `json:"memory_bytes"`
	// BAR1Bytes is the window through which other devices reach the GPU's
	// memory. P2PDMA needs one as large as the memory.
	BAR1Bytes int64 `json:"bar1_bytes"`
	// P2PMemBytes is what the kernel offers of that window to other devices
	// (p2pmem/size); 0 is nothing.
	P2PMemBytes int64 `json:"p2pmem_bytes"`

	Virtualization Virtualization `json:"virtualization"`
	MIG            MIG            `json:"mig"`
	// Bridges lie between the root complex and the GPU, the root port first.
	Bridges []Bridge `json:"bridges"`
	// Untrusted says why topology means nothing for this GPU: signs of a
	// virtual machine, those of the host first. None is good.
	Untrusted []string `json:"topology_untrusted"`
	IOMMUType string   `json:"iommu_type"` // of its group: DMA, DMA-FQ, identity; "" if it is in none
	// Notes are the questions that were not answered, with the reasons.
	Notes []string `json:"notes"`
}

// Virtualization is how a GPU was given to this system.
type Virtualization string

// The modes that nvmlDeviceGetVirtualizationMode tells (nvml.h,
// nvmlGpuVirtualizationMode_t).
const (
	VirtualizationUnknown     Virtualization = "unknown"
	VirtualizationNone        Virtualization = "none"
	VirtualizationPassthrough Virtualization = "passthrough" // the whole device, in a virtual machine
	VirtualizationVGPU        Virtualization = "vgpu"        // a share of a device, in a virtual machine
	VirtualizationHostVGPU    Virtualization = "host-vgpu"
	VirtualizationHostVSGA    Virtualization = "host-vsga"
)

// MIG is whether a GPU is split into instances. An instance is addressed by
// its own UUID and is a CUDA device of its own.
type MIG struct {
	Enabled        bool          `json:"enabled"`
	PendingEnabled bool          `json:"pending_enabled"` // after the next reset
	Instances      []MIGInstance `json:"instances"`
}

// MIGInstance is one instance of a split GPU.
type MIGInstance struct {
	UUID            string `json:"uuid"`
	GPUInstance     int    `json:"gpu_instance"`
	ComputeInstance int    `json:"compute_instance"`
	Ordinal         int    `json:"cuda_ordinal"`
}

// Link is how two GPUs reach each other, by what the driver says. It is no
// proof: a driver in a virtual machine was seen to grant peer access through a
// mapping that only the writer can see.
type Link struct {
	A string `json:"a"` // UUIDs
	B string `json:"b"`
	// Level is by NVML's nearest common ancestor.
	Level Level `json:"level"`
	// Read, Write and NVLink are "ok" or the driver's reason against it.
	Read   string `json:"p2p_read"`
	Write  string `json:"p2p_write"`
	NVLink string `json:"nvlink"`
}

// NVMLState says how far NVML could be asked.
type NVMLState string

// States of NVML.
const (
	NVMLReady  NVMLState = "ready"
	NVMLAbsent NVMLState = "absent" // no library, or a build that cannot load it
	NVMLFailed NVMLState = "failed" // the library is there and answers with an error
	NVMLHung   NVMLState = "hung"   // a call did not return in time
)

// NVML is the management library and what it says of the driver.
type NVML struct {
	State NVMLState `json:"state"`
	// Code, Name and Reason are set unless the state is ready; the code is
	// nvmlReturn_t's, 0 where NVML itself was not reached.
	Code   int    `json:"code"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// DriverVersion is like "580.95.05", CUDAVersion the newest that the
	// driver serves, like "13.0".
	DriverVersion string `json:"driver_version"`
	CUDAVersion   string `json:"cuda_version"`
	// Missing are the functions that the installed library lacks, out of those
	// that would have been called.
	Missing []string `json:"missing"`
}
