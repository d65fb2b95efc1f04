package cli

import (
	"github.com/spf13/cobra"
)

// gpuFlags are those of probe --gpu.
type gpuFlags struct {
	on                    bool
	allow                 []string
	cuda, cuFile, nvmlLib string
}

func (g *gpuFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&g.on, "gpu", false, "look at GPUs, and how bytes of DIR reach them")
	f.StringArrayVar(&g.allow, "gpu-allow", nil, "try the direct way to GPU `UUID` in a virtual\nmachine too; can be repeated")
	f.StringVar(&g.cuda, "cuda-lib", "", "for tests: load `FILE` as libcuda.so.1")
	f.StringVar(&g.cuFile, "cufile-lib", "", "for tests: load `FILE` as libcufile.so.0")
	f.StringVar(&g.nvmlLib, "nvml-lib", "", "for tests: load `FILE` as libnvidia-ml.so.1")
}

// alone is the first flag that was given and means nothing without --gpu.
func (g *gpuFlags) alone(cmd *cobra.Command) string {
	for _, name := range []string{"gpu-allow", "cuda-lib", "cufile-lib", "nvml-lib"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}
