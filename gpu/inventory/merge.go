package inventory

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// merge joins what NVML and CUDA show, by UUID: their orders differ, and CUDA
// shows only what CUDA_VISIBLE_DEVICES lets through. Of a GPU that is split
// CUDA shows the instances.
func merge(gpus []GPU, cuda []CUDADevice) []GPU {
	all := append([]GPU{}, gpus...)
	for _, c := range cuda {
		if claim(all, c) {
			continue
		}
		g := unknownGPU()
		g.UUID, g.Ordinal = uuidText("GPU-", c.UUID), c.Ordinal
		fill(&g, c)
		g.Notes = append(g.Notes, "NVML did not show it; this is what CUDA tells")
		all = append(all, g)
	}
	return all
}

// claim gives an ordinal to the GPU or the instance of that UUID.
func claim(all []GPU, c CUDADevice) bool {
	for i := range all {
		if sameUUID(all[i].UUID, c.UUID) {
			all[i].Ordinal = c.Ordinal
			fill(&all[i], c)
			return true
		}
		instances := all[i].MIG.Instances
		if j := slices.IndexFunc(instances, func(m MIGInstance) bool { return sameUUID(m.UUID, c.UUID) }); j >= 0 {
			instances[j].Ordinal = c.Ordinal
			return true
		}
	}
	return false
}

// fill takes from CUDA what NVML did not tell.
func fill(g *GPU, c CUDADevice) {
	if g.Name == "" {
		g.Name = c.Name
	}
	if a, err := parseAddress(c.PCI); err == nil && g.PCI == "" {
		g.PCI = string(a)
	}
	if g.MemoryBytes == 0 {
		g.MemoryBytes = c.MemoryBytes
	}
	if g.ComputeMajor == 0 {
		g.ComputeMajor, g.ComputeMinor = c.ComputeMajor, c.ComputeMinor
	}
}

// sameUUID compares the text of NVML, "GPU-" or "MIG-" and 36 characters, with
// the bytes of CUDA.
func sameUUID(text string, raw [16]byte) bool {
	_, digits, ok := strings.Cut(text, "-")
	if !ok || len(digits) != 36 {
		return false
	}
	b, err := hex.DecodeString(strings.ReplaceAll(digits, "-", ""))
	return err == nil && len(b) == 16 && [16]byte(b) == raw
}

func uuidText(prefix string, u [16]byte) string {
	return fmt.Sprintf("%s%x-%x-%x-%x-%x", prefix, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
