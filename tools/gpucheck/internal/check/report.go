package check

import (
	"time"

	"github.com/sealstone/sealstone/gpu"
)

// Report is what a run found.
type Report struct {
	Tool      string     `json:"tool"`
	Revision  string     `json:"revision"`
	Started   time.Time  `json:"started"`
	Seconds   float64    `json:"seconds"`
	Host      Host       `json:"host"`
	CUDA      Library    `json:"cuda"`
	CuFile    Library    `json:"cufile"`
	Compat    *Compat    `json:"cufile_compat,omitempty"`
	GPUs      []GPU      `json:"gpus"`
	Scenarios []Scenario `json:"scenarios"`
	Steps     []Step     `json:"steps"`
	// Broken counts the steps that found wrong bytes or a broken promise.
	Broken int `json:"broken"`
}

// Host is the machine.
type Host struct {
	Kernel  string   `json:"kernel"`
	Arch    string   `json:"arch"`
	CPUs    int      `json:"cpus"`
	Virtual bool     `json:"virtual"`
	Signs   []string `json:"virtual_signs"`
	Dir     string   `json:"dir"`
}

// Library is libcuda or libcufile.
type Library struct {
	// State is "present" or "absent".
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Version int    `json:"version,omitempty"` // 1000 x major + 10 x minor
	// Missing are functions that the installed version lacks.
	Missing []string `json:"missing"`
}

// GPU is one device and what was measured on it.
type GPU struct {
	UUID           string       `json:"uuid"`
	Ordinal        int          `json:"ordinal"`
	Name           string       `json:"name"`
	PCI            string       `json:"pci"`
	MemoryBytes    int64        `json:"memory_bytes"`
	FreeBytes      int64        `json:"free_bytes"`
	Compute        string       `json:"compute_capability"`
	RDMA           bool         `json:"gpudirect_rdma"`
	HostRegister   bool         `json:"host_register"`
	FlushOptions   int          `json:"flush_writes_options"`
	WritesOrdering int          `json:"writes_ordering"`
	Kernel         *Kernel      `json:"kernel,omitempty"`
	KernelSpeed    []Speed      `json:"kernel_speed"`
	Copies         []Speed      `json:"copies"`
	Verdict        *gpu.Verdict `json:"verdict,omitempty"`
	// Route is how the scenarios could read: the state of the direct path.
	Route      string  `json:"route,omitempty"`
	StoreSpeed []Speed `json:"store_speed"`
}

// Kernel is the proof of the verify kernel.
type Kernel struct {
	Vectors    int     `json:"vectors"`
	Wrong      int     `json:"wrong_vectors"` // had to come out as a mismatch, and did
	LoadMillis float64 `json:"load_ms"`
	Millis     float64 `json:"total_ms"`
}

// Speed is a rate, measured over several repetitions.
type Speed struct {
	What         string  `json:"what"`
	Bytes        int64   `json:"bytes"`
	Repetitions  int     `json:"repetitions"`
	MedianMicros float64 `json:"median_us"`
	BestMicros   float64 `json:"best_us"`
	GBs          float64 `json:"gb_per_s"` // of the median, 10^9 bytes
}

// Scenario is one of the founding reports, played through a store.
type Scenario struct {
	Name    string `json:"name"`
	GPU     string `json:"gpu"`
	Outcome string `json:"outcome"`
	Held    bool   `json:"held"`
}

// gpu is the entry of a device.
func (r *Report) gpu(uuid string) *GPU {
	for i := range r.GPUs {
		if r.GPUs[i].UUID == uuid {
			return &r.GPUs[i]
		}
	}
	r.GPUs = append(r.GPUs, GPU{UUID: uuid})
	return &r.GPUs[len(r.GPUs)-1]
}
