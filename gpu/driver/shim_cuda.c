//go:build cgo && linux

/* CUDA: one C function an operation. */
#include "shim.h"

#include <string.h>

ss_result ss_missing(const char *call) {
	ss_result r = {.code = SS_MISSING, .call = call};
	return r;
}

/* Makes ctx current on this thread. Non-zero: it could not, and r says why. */
int ss_enter(const ss_cuda *t, uintptr_t ctx, ss_result *r) {
	if (!ctx) return 0;
	if (!t->cuCtxPushCurrent_v2 || !t->cuCtxPopCurrent_v2) {
		*r = ss_missing("cuCtxPushCurrent_v2");
		return 1;
	}
	r->call = "cuCtxPushCurrent_v2";
	r->code = t->cuCtxPushCurrent_v2((void *)ctx);
	return r->code;
}

/* Leaves what the host application had current. A failure here counts only if
 * the operation itself had none. */
void ss_leave(const ss_cuda *t, uintptr_t ctx, ss_result *r) {
	if (!ctx) return;
	void *old;
	int code = t->cuCtxPopCurrent_v2(&old);
	if (code && !r->code) {
		r->code = code;
		r->call = "cuCtxPopCurrent_v2";
	}
}

/* Calls a function that needs no context. */
#define PLAIN(name, ...) \
	if (!t->name) return ss_missing(#name); \
	ss_result r = {.call = #name}; \
	r.code = t->name(__VA_ARGS__)

/* Calls a function within ctx. */
#define WITHIN(name, ...) \
	if (!t->name) return ss_missing(#name); \
	ss_result r = {0}; \
	if (ss_enter(t, ctx, &r)) return r; \
	r.code = t->name(__VA_ARGS__); \
	r.call = #name; \
	ss_leave(t, ctx, &r)

ss_result ss_init(const ss_cuda *t) { PLAIN(cuInit, 0); return r; }
ss_result ss_version(const ss_cuda *t) { int v = 0; PLAIN(cuDriverGetVersion, &v); r.value = v; return r; }
ss_result ss_device_count(const ss_cuda *t) { int n = 0; PLAIN(cuDeviceGetCount, &n); r.value = n; return r; }
ss_result ss_device(const ss_cuda *t, int ordinal) { int d = 0; PLAIN(cuDeviceGet, &d, ordinal); r.value = d; return r; }
ss_result ss_device_name(const ss_cuda *t, int dev, char *buf, int n) { PLAIN(cuDeviceGetName, buf, n, dev); return r; }
ss_result ss_device_bus(const ss_cuda *t, int dev, char *buf, int n) { PLAIN(cuDeviceGetPCIBusId, buf, n, dev); return r; }
ss_result ss_device_memory(const ss_cuda *t, int dev) { size_t n = 0; PLAIN(cuDeviceTotalMem_v2, &n, dev); r.value = n; return r; }
ss_result ss_retain(const ss_cuda *t, int dev) { void *c = NULL; PLAIN(cuDevicePrimaryCtxRetain, &c, dev); r.value = (uintptr_t)c; return r; }
ss_result ss_release(const ss_cuda *t, int dev) { PLAIN(cuDevicePrimaryCtxRelease_v2, dev); return r; }

ss_result ss_device_attribute(const ss_cuda *t, int dev, int attribute) {
	int v = 0;
	PLAIN(cuDeviceGetAttribute, &v, attribute, dev);
	r.value = (uint64_t)(int64_t)v;
	return r;
}

/* _v2 knows MIG instances; headers up to 12.9 have both. */
ss_result ss_device_uuid(const ss_cuda *t, int dev, unsigned char *uuid) {
	if (t->cuDeviceGetUuid_v2) {
		PLAIN(cuDeviceGetUuid_v2, uuid, dev);
		return r;
	}
	PLAIN(cuDeviceGetUuid, uuid, dev);
	return r;
}

ss_result ss_mem_alloc(const ss_cuda *t, uintptr_t ctx, size_t n) {
	ss_devptr p = 0;
	WITHIN(cuMemAlloc_v2, &p, n);
	r.value = p;
	return r;
}

ss_result ss_mem_info(const ss_cuda *t, uintptr_t ctx) {
	size_t free = 0, total = 0;
	WITHIN(cuMemGetInfo_v2, &free, &total);
	r.value = free;
	r.second = total;
	return r;
}

ss_result ss_mem_free(const ss_cuda *t, uintptr_t ctx, ss_devptr p) { WITHIN(cuMemFree_v2, p); return r; }

/* PORTABLE: pinned for all contexts, so that one ring serves several GPUs. */
ss_result ss_host_register(const ss_cuda *t, uintptr_t ctx, uintptr_t p, size_t n) {
	enum { PORTABLE = 1 };
	WITHIN(cuMemHostRegister_v2, (void *)p, n, PORTABLE);
	return r;
}

ss_result ss_host_unregister(const ss_cuda *t, uintptr_t ctx, uintptr_t p) { WITHIN(cuMemHostUnregister, (void *)p); return r; }

ss_result ss_h2d(const ss_cuda *t, uintptr_t ctx, ss_devptr dst, uintptr_t src, size_t n, uintptr_t s) {
	WITHIN(cuMemcpyHtoDAsync_v2, dst, (const void *)src, n, (void *)s);
	return r;
}

ss_result ss_d2h(const ss_cuda *t, uintptr_t ctx, uintptr_t dst, ss_devptr src, size_t n, uintptr_t s) {
	WITHIN(cuMemcpyDtoHAsync_v2, (void *)dst, src, n, (void *)s);
	return r;
}

ss_result ss_d2d(const ss_cuda *t, uintptr_t ctx, ss_devptr dst, ss_devptr src, size_t n, uintptr_t s) {
	WITHIN(cuMemcpyDtoDAsync_v2, dst, src, n, (void *)s);
	return r;
}

ss_result ss_memset(const ss_cuda *t, uintptr_t ctx, ss_devptr p, unsigned char v, size_t n, uintptr_t s) {
	WITHIN(cuMemsetD8Async, p, v, n, (void *)s);
	return r;
}

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: memory operations on p are synchronous, as
 * the GPUDirect RDMA guide asks for memory that another device writes to. */
ss_result ss_sync_memops(const ss_cuda *t, uintptr_t ctx, ss_devptr p) {
	enum { SYNC_MEMOPS = 6 };
	unsigned on = 1;
	WITHIN(cuPointerSetAttribute, &on, SYNC_MEMOPS, p);
	return r;
}

ss_result ss_flush_writes(const ss_cuda *t, uintptr_t ctx) {
	enum { CURRENT_CTX = 0, TO_OWNER = 100 };
	WITHIN(cuFlushGPUDirectRDMAWrites, CURRENT_CTX, TO_OWNER);
	return r;
}

/* NON_BLOCKING: not ordered with the host application's default stream. */
ss_result ss_stream_create(const ss_cuda *t, uintptr_t ctx) {
	enum { NON_BLOCKING = 1 };
	void *s = NULL;
	WITHIN(cuStreamCreate, &s, NON_BLOCKING);
	r.value = (uintptr_t)s;
	return r;
}

ss_result ss_stream_destroy(const ss_cuda *t, uintptr_t ctx, uintptr_t s) { WITHIN(cuStreamDestroy_v2, (void *)s); return r; }
ss_result ss_stream_query(const ss_cuda *t, uintptr_t ctx, uintptr_t s) { WITHIN(cuStreamQuery, (void *)s); return r; }
ss_result ss_stream_sync(const ss_cuda *t, uintptr_t ctx, uintptr_t s) { WITHIN(cuStreamSynchronize, (void *)s); return r; }
ss_result ss_stream_wait(const ss_cuda *t, uintptr_t ctx, uintptr_t s, uintptr_t e) { WITHIN(cuStreamWaitEvent, (void *)s, (void *)e, 0); return r; }

/* BLOCKING_SYNC: waiting does not burn a core. DISABLE_TIMING: cheaper. */
ss_result ss_event_create(const ss_cuda *t, uintptr_t ctx) {
	enum { BLOCKING_SYNC = 1, DISABLE_TIMING = 2 };
	void *e = NULL;
	WITHIN(cuEventCreate, &e, BLOCKING_SYNC | DISABLE_TIMING);
	r.value = (uintptr_t)e;
	return r;
}

ss_result ss_event_destroy(const ss_cuda *t, uintptr_t ctx, uintptr_t e) { WITHIN(cuEventDestroy_v2, (void *)e); return r; }
ss_result ss_event_record(const ss_cuda *t, uintptr_t ctx, uintptr_t e, uintptr_t s) { WITHIN(cuEventRecord, (void *)e, (void *)s); return r; }
ss_result ss_event_query(const ss_cuda *t, uintptr_t ctx, uintptr_t e) { WITHIN(cuEventQuery, (void *)e); return r; }
ss_result ss_event_sync(const ss_cuda *t, uintptr_t ctx, uintptr_t e) { WITHIN(cuEventSynchronize, (void *)e); return r; }

/* The size options are passed by value in the pointer array (cuda.h,
 * CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) and written back with what was filled. */
ss_result ss_module_load(const ss_cuda *t, uintptr_t ctx, const char *ptx, char *log, size_t log_size) {
	enum { ERROR_LOG_BUFFER = 5, ERROR_LOG_BUFFER_SIZE = 6 };
	int options[] = {ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE};
	void *values[] = {log, (void *)log_size};
	void *m = NULL;
	WITHIN(cuModuleLoadDataEx, &m, ptx, 2, options, values);
	r.value = (uintptr_t)m;
	return r;
}

ss_result ss_module_unload(const ss_cuda *t, uintptr_t ctx, uintptr_t m) { WITHIN(cuModuleUnload, (void *)m); return r; }

ss_result ss_module_function(const ss_cuda *t, uintptr_t ctx, uintptr_t m, const char *name) {
	void *f = NULL;
	WITHIN(cuModuleGetFunction, &f, (void *)m, name);
	r.value = (uintptr_t)f;
	return r;
}

/* The parameter is copied into C memory here, as the array of pointers to
 * parameters must not hold a Go pointer. n is bounded by the caller. */
ss_result ss_launch(const ss_cuda *t, uintptr_t ctx, uintptr_t f, ss_dim grid, ss_dim block,
		const void *param, size_t n, uintptr_t s) {
	_Alignas(16) unsigned char copy[4096];
	memcpy(copy, param, n);
	void *params[] = {copy};
	WITHIN(cuLaunchKernel, (void *)f, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, (void *)s, params, NULL);
	return r;
}
