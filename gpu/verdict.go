package gpu

import (
	"fmt"
	"time"
)

// VerdictState is what a canary found out about a pair of a GPU and a
// directory.
type VerdictState string

const (
	// VerdictUnknown is the zero value: nothing was tried.
	VerdictUnknown VerdictState = ""
	// VerdictProven: bytes of a fresh file arrived in the GPU's memory by the
	// direct path, and nowhere else. It is permission to try, never trust.
	VerdictProven VerdictState = "proven"
	// VerdictRefused: the direct path is not to be used; the reason says why.
	VerdictRefused VerdictState = "refused"
)

// Verdict is the answer of a canary for one GPU and one directory. Only
// package gpu/canary makes one that says proven.
type Verdict struct {
	State VerdictState `json:"state"`
	// Code and Name are those of the call that failed: a cuFile, CUDA or
	// errno number and its name. Where no call failed Code is 0 and Name a
	// word for the finding: "hung", "compat-mode", "wrong-bytes".
	Code int    `json:"code,omitempty"`
	Name string `json:"name,omitempty"`
	// Reason says what was found and what can be done about it; empty when
	// proven.
	Reason string `json:"reason,omitempty"`
	// Dir is the directory that was asked for.
	Dir string `json:"dir"`
	// Key is all that the verdict depends on.
	Key VerdictKey `json:"key"`
	// When the canary ended, and how long it took.
	When   time.Time `json:"when"`
	TookMs int64     `json:"took_ms"`
	// Checks were done, in this order; the last one failed if State is
	// refused.
	Checks []VerdictCheck `json:"checks"`
	// Notes are what an operator should know and what decided nothing.
	Notes []string `json:"notes,omitempty"`
	// Tried is true once the direct path itself was tried. A refusal before
	// that says nothing about the pair and is not kept in a file.
	Tried bool `json:"tried"`
	// Cached is true for a verdict that was not found out now.
	Cached bool `json:"cached,omitempty"`
}

// VerdictCheck is one check of a canary.
type VerdictCheck struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail,omitempty"`
}

// VerdictKey is all that decides whether a verdict still holds. It is
// comparable: a verdict counts only while every field is the same.
type VerdictKey struct {
	GPU          string `json:"gpu"`           // UUID, as NVML prints it
	Device       string `json:"device"`        // st_dev as major:minor
	DeviceSerial string `json:"device_serial"` // of the block device; "" if it has none
	MountID      uint64 `json:"mount_id"`
	Mount        string `json:"mount"`      // source, mount point, options
	Filesystem   string `json:"filesystem"` // as in mount(8)
	Kernel       string `json:"kernel"`
	BootID       string `json:"boot_id"`
	CUDA         int    `json:"cuda"`          // cuDriverGetVersion
	CuFile       int    `json:"cufile"`        // cuFileGetVersion
	Driver       string `json:"driver"`        // release of the kernel modules nvidia and nvidia-fs
	Libraries    string `json:"libraries"`     // which files libcuda and libcufile are
	CuFileConfig string `json:"cufile_config"` // digest of cufile.json and of the CUFILE_ variables
	Trial        string `json:"trial"`         // what the canary does: version, sizes, what it lets pass
}

// Proven says whether the verdict permits direct reads to this GPU.
func (v Verdict) Proven(gpuUUID string) bool {
	return v.State == VerdictProven && gpuUUID != "" && v.Key.GPU == gpuUUID
}

// String is the verdict in one line.
func (v Verdict) String() string {
	switch v.State {
	case VerdictUnknown:
		return "unknown: nothing was tried"
	case VerdictProven:
		return fmt.Sprintf("proven by %d checks", len(v.Checks))
	}
	what := v.Name
	if v.Code != 0 {
		what = fmt.Sprintf("%d %s", v.Code, v.Name)
	}
	return fmt.Sprintf("%s: %s: %s", v.State, what, v.Reason)
}
