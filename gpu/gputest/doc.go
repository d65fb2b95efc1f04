// Package gputest has doubles of libcuda, libcufile and libnvidia-ml for
// machines without a GPU. They are C, in native/, compiled by the first [Build]
// of a process; code under test loads them by path, as it loads the real ones.
//
// Device memory is host memory at addresses that the CPU cannot use. Work on
// streams is done by a thread of the double, in the order of each stream, after
// a random pause, so that who does not wait for an event is caught. Contexts are
// per system thread. Reads by cuFile are pread. The verify kernel is done by the
// CPU, written again in C.
//
// # Faults
//
// [Doubles.Set] makes a call fail: which one, how ([Kind]), from its k-th call on,
// how often, on which device. [Doubles.Configure] and the environment variable
// SEALSTONE_FAKE_GPU, read when a double is loaded, take the same as text, for
// child processes and for use by hand:
//
//	call=kind[:arg][/device][@from[+count]],setting=value,...
//
//	cuFileHandleRegister=5027        every registration fails with 5027
//	cuFileRead=stale@3+1             the third read writes nothing and says success
//	cuFileRead=errno:5027            -1 with 5027 in errno
//	cuFileRead=-5                    -EIO as the return value
//	cuFileRead=late/2                reads of device 2 arrive after the return
//	cuLaunchKernel=skip              kernels do not run
//	cuMemHostRegister_v2=limit:8388608  more than 8 MiB of pinned memory is refused
//	cuStreamSynchronize=719          kills the context
//
// A kind that is a number is returned as the code. Settings:
//
//	devices=8       number of GPUs (2)
//	async=0         work is done when it is queued (1: later, by a thread)
//	delay=60        longest pause before a piece of work, in microseconds
//	late=2000       when a late write comes after the return, in microseconds
//	memory=N        bytes of a device (1 GiB)
//	bar1=1024       MiB that cuFile may register on a device
//	route=nvfs      how cuFile reads: nvfs, p2p, or none (by way of the CPU)
//	cufile=1190     version of libcufile; cuda=13000 that of libcuda
//	ordering=100    the attribute of GPUDirect RDMA's order of writes; flush=1
//	virt=1[/device] what NVML says of virtualisation: 1 is passthrough
//
// With SEALSTONE_FAKE_GPU_LOG=FILE each fault that fires and each violation is a
// line of that file.
//
// # Violations
//
// The doubles record what no caller may do: pinned memory that is written, or
// unmapped, before the copy from it has run; copies from memory that is not
// pinned; work of two streams on the same memory that no event orders; work on
// freed memory; freeing what is in use or registered; a read by
// cuFile into memory that a stream works on; any touch of memory after its
// operation had completed ([Doubles.Guard]); contexts left pushed. A test with
// one fails when it ends. What is outstanding is [Doubles.Leaks].
//
// # By hand
//
//	go run ./gpu/gputest/doubles /tmp/doubles
//	SEALSTONE_FAKE_GPU=cuFileHandleRegister=5027 bin/sealstone probe --gpu \
//	    --cuda-lib /tmp/doubles/libcuda.so.1 --cufile-lib /tmp/doubles/libcufile.so.0
package gputest
