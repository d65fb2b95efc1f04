package canary

import (
	"time"

	"github.com/sealstone/sealstone/gpu"
)

const testGPU = "GPU-00112233-4455-6677-8899-aabbccddeeff"

var testKey = gpu.VerdictKey{GPU: testGPU, Device: "259:1", MountID: 7, Kernel: "6.1", BootID: "boot"}

// provenVerdict is one that passed every check.
func provenVerdict(dir string, key gpu.VerdictKey) gpu.Verdict {
	v := gpu.Verdict{State: gpu.VerdictProven, Dir: dir, Key: key, Tried: true, When: time.Unix(1, 0).UTC()}
	for _, name := range requiredChecks {
		v.Checks = append(v.Checks, gpu.VerdictCheck{Name: name, Passed: true})
	}
	return v
}
