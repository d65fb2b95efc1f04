// Package gpu moves verified bytes into and out of the memory of GPUs.
//
// A [Device] is one GPU. Bytes reach it by one of two paths:
//
//   - through the host: from pinned memory ([Device.TakePinned]), where they
//     were read and verified, to staging memory in the device and from there to
//     their destination ([Device.CopyIn]);
//   - straight from a file, by cuFile ([Device.ReadDirect]): into landing
//     memory, from there to inspection memory, where no DMA reaches and they
//     are verified, and on to their destination. This path is used only for a directory that a
//     canary has passed on ([Device.AllowDirect], package gpu/canary), and is
//     turned off when it gives wrong bytes, errors, or no answer.
//
// Staging holds verified bytes only, and no byte reaches a caller's memory that
// was not verified, in host memory or on the device. [Device.CopyOut] takes blocks the other way.
//
// Calls of a driver cannot be cancelled. One that does not return within
// [Options].HangTimeout is given up: its caller gets an answer, and the memory,
// files and streams that it may still use are set aside and never reused.
//
// The package calls libcuda and libcufile through package gpu/driver; without
// them, or without cgo, there is no Device, and the reason is in the error.
package gpu
