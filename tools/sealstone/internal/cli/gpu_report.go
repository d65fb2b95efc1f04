package cli

import (
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/inventory"
)

// gpuReport is what probe --gpu finds.
type gpuReport struct {
	Driver gpuLibrary      `json:"driver"`
	CuFile gpuLibrary      `json:"cufile"`
	GPUs   []inventory.GPU `json:"gpus"`
	Pairs  []gpuPair       `json:"pairs"`
	// Doubles: the libraries are those of this project's tests, and what this
	// machine is counts for nothing.
	Doubles   bool                `json:"doubles"`
	Directory inventory.Directory `json:"directory"`
	Links     []inventory.Link    `json:"links"`
	Host      gpuHost             `json:"host"`
}

// gpuHost is what is known of the machine.
type gpuHost struct {
	Kernel   string             `json:"kernel"`
	Virtual  inventory.Virtual  `json:"virtual"`
	IOMMU    inventory.IOMMU    `json:"iommu"`
	Gates    []string           `json:"gates"`
	Module   inventory.Module   `json:"kernel_module"`
	NVML     inventory.NVML     `json:"nvml"`
	NVIDIAFS inventory.NVIDIAFS `json:"nvidia_fs"`
	P2PDMA   inventory.P2PDMA   `json:"p2pdma"`
}

// libraryState says how far a library of the driver could be used.
type libraryState string

const (
	libraryReady  libraryState = "ready"
	libraryAbsent libraryState = "absent" // there is none, or this build cannot load it
	libraryFailed libraryState = "failed" // it is there and refuses
	libraryHung   libraryState = "hung"   // a call did not return in time
)

// gpuLibrary is libcuda or libcufile.
type gpuLibrary struct {
	State libraryState `json:"state"`
	// Version is like "13.0"; empty unless ready.
	Version string `json:"version"`
	// Code and Name are those of the call that failed; 0 and "" if none did.
	Code   int    `json:"code"`
	Name   string `json:"name"`
	Reason string `json:"reason"` // empty if ready
}

// gpuPath is the way that bytes of a directory take to a GPU.
type gpuPath string

const (
	gpuPathCuFile gpuPath = "cufile"
	gpuPathHost   gpuPath = "host-bounce"
	gpuPathNone   gpuPath = "none" // the GPU cannot be used
)

// gpuPair is a CUDA device, which is a GPU or an instance of one, and a
// directory.
type gpuPair struct {
	index     int     // of the GPU in the report
	GPU       string  `json:"gpu"`
	Instance  string  `json:"instance"` // UUID; "" unless the GPU is split
	Directory string  `json:"directory"`
	Path      gpuPath `json:"path"`
	Because   string  `json:"because"`
	// Direct is what a trial of the direct way found, or why there was none.
	Direct gpu.Verdict `json:"direct"`
	// Place is how the GPU and the device behind the directory hang together.
	// It decides nothing.
	Place inventory.Pair `json:"place"`
	// Against are the reasons known beforehand against a direct way; they
	// explain a refusal.
	Against []string `json:"against"`
}

// forgetHost takes out what the machine is. Doubles reach no bus, so it says
// nothing for or against them; what they say of a device themselves stays.
func (r *gpuReport) forgetHost() {
	for i := range r.GPUs {
		g := &r.GPUs[i]
		g.Untrusted = g.Untrusted[len(r.Host.Virtual.Signals):]
	}
	r.Host.Virtual = inventory.Virtual{Signals: []string{}}
	r.Host.Gates, r.Directory.Obstacles = []string{}, []string{}
	r.Host.NVIDIAFS.Against, r.Host.P2PDMA.Against = []string{}, []string{}
}

// againstHere is what is known beforehand against direct reads from the
// directory, whichever the GPU.
func (r *gpuReport) againstHere() []string {
	all := append([]string{}, r.Host.Gates...)
	all = append(all, r.Directory.Obstacles...)
	// One of the two routes is enough.
	if n, p := r.Host.NVIDIAFS.Against, r.Host.P2PDMA.Against; len(n) > 0 && len(p) > 0 {
		all = append(all, "nvidia-fs: "+strings.Join(n, "; "), "P2PDMA: "+strings.Join(p, "; "))
	}
	return all
}

// againstGPU is what is known beforehand against one GPU.
func againstGPU(g inventory.GPU, place inventory.Pair) []string {
	all := append([]string{}, place.Doubts...)
	if g.BAR1Bytes > 0 && g.BAR1Bytes < g.MemoryBytes {
		all = append(all, fmt.Sprintf("BAR1 is %s and the memory %s: P2PDMA needs a BAR1 of the memory's size", formatBytes(g.BAR1Bytes), formatBytes(g.MemoryBytes)))
	}
	return all
}
