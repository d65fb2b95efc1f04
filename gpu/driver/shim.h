/* The functions that Go calls, and the tables of functions found by dlsym.
 *
 * Types follow cuda.h and cufile.h: CUresult and CUdevice are int, CUdeviceptr
 * is 64 bits, handles are pointers. They cross into Go as integers, so that no
 * Go pointer ever lies in them. */
#ifndef SEALSTONE_GPU_DRIVER_SHIM_H
#define SEALSTONE_GPU_DRIVER_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef unsigned long long ss_devptr;

/* Returned by value in one register: two enums of 4 bytes (cufile.h). */
typedef struct { int err; int cu_err; } ss_cufile_error;

/* CUfileDescr_t, 24 bytes. */
typedef struct {
	int type; /* 1: a file descriptor of the system */
	union { int fd; void *handle; } handle;
	const void *fs_ops;
} ss_cufile_descr;

/* Exact names: cuda.h maps unsuffixed names to the _v2 functions; the unsuffixed
 * ones exist too, with another ABI. */
#define SS_CUDA_SYMBOLS(X) \
	X(cuInit, int, (unsigned)) \
	X(cuDriverGetVersion, int, (int *)) \
	X(cuDeviceGetCount, int, (int *)) \
	X(cuDeviceGet, int, (int *, int)) \
	X(cuDeviceGetName, int, (char *, int, int)) \
	X(cuDeviceGetUuid_v2, int, (unsigned char *, int)) \
	X(cuDeviceGetUuid, int, (unsigned char *, int)) \
	X(cuDeviceGetPCIBusId, int, (char *, int, int)) \
	X(cuDeviceGetAttribute, int, (int *, int, int)) \
	X(cuDeviceTotalMem_v2, int, (size_t *, int)) \
	X(cuDevicePrimaryCtxRetain, int, (void **, int)) \
	X(cuDevicePrimaryCtxRelease_v2, int, (int)) \
	X(cuCtxPushCurrent_v2, int, (void *)) \
	X(cuCtxPopCurrent_v2, int, (void **)) \
	X(cuMemAlloc_v2, int, (ss_devptr *, size_t)) \
	X(cuMemFree_v2, int, (ss_devptr)) \
	X(cuMemGetInfo_v2, int, (size_t *, size_t *)) \
	X(cuMemHostRegister_v2, int, (void *, size_t, unsigned)) \
	X(cuMemHostUnregister, int, (void *)) \
	X(cuMemcpyHtoDAsync_v2, int, (ss_devptr, const void *, size_t, void *)) \
	X(cuMemcpyDtoHAsync_v2, int, (void *, ss_devptr, size_t, void *)) \
	X(cuMemcpyDtoDAsync_v2, int, (ss_devptr, ss_devptr, size_t, void *)) \
	X(cuMemsetD8Async, int, (ss_devptr, unsigned char, size_t, void *)) \
	X(cuStreamCreate, int, (void **, unsigned)) \
	X(cuStreamDestroy_v2, int, (void *)) \
	X(cuStreamQuery, int, (void *)) \
	X(cuStreamSynchronize, int, (void *)) \
	X(cuStreamWaitEvent, int, (void *, void *, unsigned)) \
	X(cuEventCreate, int, (void **, unsigned)) \
	X(cuEventDestroy_v2, int, (void *)) \
	X(cuEventRecord, int, (void *, void *)) \
	X(cuEventQuery, int, (void *)) \
	X(cuEventSynchronize, int, (void *)) \
	X(cuPointerSetAttribute, int, (const void *, int, ss_devptr)) \
	X(cuFlushGPUDirectRDMAWrites, int, (int, int)) \
	X(cuModuleLoadDataEx, int, (void **, const void *, unsigned, int *, void **)) \
	X(cuModuleUnload, int, (void *)) \
	X(cuModuleGetFunction, int, (void **, void *, const char *)) \
	X(cuLaunchKernel, int, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

#define SS_CUFILE_SYMBOLS(X) \
	X(cuFileDriverOpen, ss_cufile_error, (void)) \
	X(cuFileDriverClose_v2, ss_cufile_error, (void)) \
	X(cuFileDriverClose, ss_cufile_error, (void)) \
	X(cuFileGetVersion, ss_cufile_error, (int *)) \
	X(cuFileDriverGetProperties, ss_cufile_error, (void *)) \
	X(cuFileHandleRegister, ss_cufile_error, (void **, ss_cufile_descr *)) \
	X(cuFileHandleDeregister, void, (void *)) \
	X(cuFileBufRegister, ss_cufile_error, (const void *, size_t, int)) \
	X(cuFileBufDeregister, ss_cufile_error, (const void *)) \
	X(cuFileRead, ssize_t, (void *, void *, size_t, off_t, off_t)) \
	X(cuFileGetParameterBool, ss_cufile_error, (int, bool *)) \
	X(cuFileSetParameterBool, ss_cufile_error, (int, bool)) \
	X(cuFileSetParameterString, ss_cufile_error, (int, const char *)) \
	X(cuFileSetStatsLevel, ss_cufile_error, (int)) \
	X(cuFileStatsStart, ss_cufile_error, (void)) \
	X(cuFileStatsStop, ss_cufile_error, (void)) \
	X(cuFileStatsReset, ss_cufile_error, (void)) \
	X(cuFileGetStatsL3, ss_cufile_error, (void *))

#define SS_FIELD(name, ret, args) ret (*name) args;
typedef struct { SS_CUDA_SYMBOLS(SS_FIELD) } ss_cuda;
typedef struct { SS_CUFILE_SYMBOLS(SS_FIELD) } ss_cufile;
#undef SS_FIELD

/* The code of a function that the library lacks. No library returns it. */
#define SS_MISSING (-0x5ea1)

/* What a call gave. call is a literal: the function that the code is from. */
typedef struct {
	int code;
	int cu_err; /* cuFile only */
	const char *call;
	uint64_t value;
	uint64_t second;
} ss_result;

/* What cuFileRead gave. code and call tell of the context only. */
typedef struct {
	int64_t n;
	int saved_errno;
	int code;
	const char *call;
} ss_read_result;

/* Loading. On failure the table is NULL and error a malloc'd text. */
typedef struct { void *table; char *error; } ss_loaded;
ss_loaded ss_cuda_load(const char *path);
ss_loaded ss_cufile_load(const char *path);
/* The name of the i-th symbol and whether it is there; NULL past the end. */
const char *ss_cuda_symbol(const ss_cuda *t, int i, int *there);
const char *ss_cufile_symbol(const ss_cufile *t, int i, int *there);

/* Without a context. */
ss_result ss_init(const ss_cuda *t);
ss_result ss_version(const ss_cuda *t);
ss_result ss_device_count(const ss_cuda *t);
ss_result ss_device(const ss_cuda *t, int ordinal);
ss_result ss_device_name(const ss_cuda *t, int dev, char *buf, int n);
ss_result ss_device_uuid(const ss_cuda *t, int dev, unsigned char *uuid);
ss_result ss_device_bus(const ss_cuda *t, int dev, char *buf, int n);
ss_result ss_device_attribute(const ss_cuda *t, int dev, int attribute);
ss_result ss_device_memory(const ss_cuda *t, int dev);
ss_result ss_retain(const ss_cuda *t, int dev);
ss_result ss_release(const ss_cuda *t, int dev);

/* Within a context: push, operate, pop. */
ss_result ss_mem_alloc(const ss_cuda *t, uintptr_t ctx, size_t n);
ss_result ss_mem_free(const ss_cuda *t, uintptr_t ctx, ss_devptr p);
ss_result ss_mem_info(const ss_cuda *t, uintptr_t ctx);
ss_result ss_host_register(const ss_cuda *t, uintptr_t ctx, uintptr_t p, size_t n);
ss_result ss_host_unregister(const ss_cuda *t, uintptr_t ctx, uintptr_t p);
ss_result ss_h2d(const ss_cuda *t, uintptr_t ctx, ss_devptr dst, uintptr_t src, size_t n, uintptr_t s);
ss_result ss_d2h(const ss_cuda *t, uintptr_t ctx, uintptr_t dst, ss_devptr src, size_t n, uintptr_t s);
ss_result ss_d2d(const ss_cuda *t, uintptr_t ctx, ss_devptr dst, ss_devptr src, size_t n, uintptr_t s);
ss_result ss_memset(const ss_cuda *t, uintptr_t ctx, ss_devptr p, unsigned char v, size_t n, uintptr_t s);
ss_result ss_sync_memops(const ss_cuda *t, uintptr_t ctx, ss_devptr p);
ss_result ss_flush_writes(const ss_cuda *t, uintptr_t ctx);
ss_result ss_stream_create(const ss_cuda *t, uintptr_t ctx);
ss_result ss_stream_destroy(const ss_cuda *t, uintptr_t ctx, uintptr_t s);
ss_result ss_stream_query(const ss_cuda *t, uintptr_t ctx, uintptr_t s);
ss_result ss_stream_sync(const ss_cuda *t, uintptr_t ctx, uintptr_t s);
ss_result ss_stream_wait(const ss_cuda *t, uintptr_t ctx, uintptr_t s, uintptr_t e);
ss_result ss_event_create(const ss_cuda *t, uintptr_t ctx);
ss_result ss_event_destroy(const ss_cuda *t, uintptr_t ctx, uintptr_t e);
ss_result ss_event_record(const ss_cuda *t, uintptr_t ctx, uintptr_t e, uintptr_t s);
ss_result ss_event_query(const ss_cuda *t, uintptr_t ctx, uintptr_t e);
ss_result ss_event_sync(const ss_cuda *t, uintptr_t ctx, uintptr_t e);
ss_result ss_module_load(const ss_cuda *t, uintptr_t ctx, const char *ptx, char *log, size_t log_size);
ss_result ss_module_unload(const ss_cuda *t, uintptr_t ctx, uintptr_t m);
ss_result ss_module_function(const ss_cuda *t, uintptr_t ctx, uintptr_t m, const char *name);
typedef struct { unsigned x, y, z; } ss_dim;
ss_result ss_launch(const ss_cuda *t, uintptr_t ctx, uintptr_t f, ss_dim grid, ss_dim block,
	const void *param, size_t n, uintptr_t s);

/* cuFile. A context of 0 pushes none. */
ss_result ss_file_open(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx);
ss_result ss_file_close(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx);
ss_result ss_file_version(const ss_cufile *f);
ss_result ss_file_properties(const ss_cufile *f, void *props);
ss_result ss_file_parameter(const ss_cufile *f, int which);
ss_result ss_file_set_parameter(const ss_cufile *f, int which, bool value);
ss_result ss_file_set_string(const ss_cufile *f, int which, const char *value);
ss_result ss_file_stats_level(const ss_cufile *f, int level);
ss_result ss_file_stats_start(const ss_cufile *f);
ss_result ss_file_stats_stop(const ss_cufile *f);
ss_result ss_file_stats_reset(const ss_cufile *f);
ss_result ss_file_stats(const ss_cufile *f, void *buf);
ss_result ss_file_register(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, int fd);
ss_result ss_file_deregister(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, uintptr_t h);
ss_result ss_buf_register(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, ss_devptr p, size_t n);
ss_result ss_buf_deregister(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, ss_devptr p);
ss_read_result ss_file_read(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, uintptr_t h, ss_devptr base,
	size_t n, off_t file_offset, off_t buf_offset);

/* Within a context, for the other files of the shim. */
int ss_enter(const ss_cuda *t, uintptr_t ctx, ss_result *r);
void ss_leave(const ss_cuda *t, uintptr_t ctx, ss_result *r);
ss_result ss_missing(const char *call);

#endif
