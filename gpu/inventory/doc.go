// Package inventory says which GPUs, NVMe devices and bridges a host has and
// how they hang together: GPUs by UUID from NVML and CUDA, everything else from
// /sys and /proc.
//
// What it says is advice for people and for the choice of what to try first. It
// never makes a path usable: that takes a canary which moved real bytes. So it
// is careful in one direction only. A GPU and an NVMe device count as near
// where a PCIe switch above both was seen, and everything that could not be
// seen is unknown. In a virtual machine the bridges that a guest sees may not
// be those of the host, so nothing counts as near there.
//
// NVML is reached through go-nvml, which leaves its symbols to be bound at the
// first call: a function that the installed library lacks ends the process, and
// so does a library or program whose symbols are all bound at once (built with
// -z now, or loaded by dlopen with RTLD_NOW, as Python does). Hence only
// programs import this package, never the library, and every call looks its
// symbol up before.
package inventory
