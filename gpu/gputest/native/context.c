/* Devices and contexts. The current context is per thread, as in the driver. */
#define FAKE_CUDA
#include "core.h"

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201 };
enum { MAX_DEPTH = 32 };

static __thread struct context *stack[MAX_DEPTH];
static __thread int depth;

struct context *context_current(void) { return depth ? stack[depth - 1] : NULL; }

/* CUDA documents these as leaving the process in an inconsistent state. */
bool code_sticky(int code) {
	switch (code) {
	case 214: case 220: case 700: case 702: case 710:
	case 714: case 715: case 716: case 717: case 718: case 719:
		return true;
	}
	return false;
}

/* Kills a context: its work is gone. Needs the lock. */
void context_lose(struct context *ctx, int code) {
	ctx->lost = code;
	stream_drop(ctx);
	pthread_cond_broadcast(&core.changed);
}

static int device_of(struct context *c) { return c ? c->device : -1; }

int call_plain(int call, struct hit *h) {
	core_start();
	core_lock();
	*h = fault_of(call, device_of(context_current()));
	if (h->kind == K_HANG) core_wait_release();
	if (h->kind == K_CODE && h->arg) {
		core_unlock();
		return (int)h->arg;
	}
	return 0;
}

int call_begin(int call, struct context **ctx, struct hit *h) {
	int code = call_plain(call, h);
	struct context *c = context_current();
	if (code) {
		core_lock();
		if (c && code_sticky(code) && !c->lost) context_lose(c, code);
		core_unlock();
		return code;
	}
	*ctx = c;
	if (!core.initialised) code = NOT_INITIALIZED;
	else if (!c || !c->references) code = INVALID_CONTEXT;
	else if (h->kind == K_LOST && !c->lost) context_lose(c, h->arg ? (int)h->arg : 719);
	if (!code) code = c->lost;
	if (code) core_unlock();
	return code;
}

/* Begins a call that needs no context; DONE ends it. */
#define PLAIN(name) \
	struct hit h; \
	int code = call_plain(CALL_##name, &h); \
	if (code) return code
#define DONE(...) \
	do { \
		int result_ = (__VA_ARGS__); \
		core_unlock(); \
		return result_; \
	} while (0)
#define INITIALISED() if (!core.initialised) DONE(NOT_INITIALIZED)
#define EXISTS(dev) if ((dev) < 0 || (dev) >= core.set.devices) DONE(INVALID_DEVICE)

int cuInit(unsigned flags) {
	PLAIN(cuInit);
	if (flags) DONE(INVALID_VALUE);
	if (!core.set.devices) DONE(NO_DEVICE);
	core.initialised = 1;
	DONE(0);
}

int cuDriverGetVersion(int *v) {
	PLAIN(cuDriverGetVersion);
	*v = core.set.cuda_version;
	DONE(0);
}

int cuDeviceGetCount(int *n) {
	PLAIN(cuDeviceGetCount);
	INITIALISED();
	*n = core.set.devices;
	DONE(0);
}

int cuDeviceGet(int *dev, int ordinal) {
	PLAIN(cuDeviceGet);
	INITIALISED();
	EXISTS(ordinal);
	*dev = ordinal;
	DONE(0);
}

int cuDeviceGetName(char *name, int room, int dev) {
	PLAIN(cuDeviceGetName);
	EXISTS(dev);
	snprintf(name, (size_t)room, "Double GPU %d", dev);
	DONE(0);
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int dev) {
	PLAIN(cuDeviceGetUuid_v2);
	EXISTS(dev);
	core.uuid(dev, uuid);
	DONE(0);
}

int cuDeviceGetUuid(unsigned char *uuid, int dev) {
	PLAIN(cuDeviceGetUuid);
	EXISTS(dev);
	core.uuid(dev, uuid);
	DONE(0);
}

int cuDeviceGetPCIBusId(char *text, int room, int dev) {
	PLAIN(cuDeviceGetPCIBusId);
	EXISTS(dev);
	unsigned bus;
	core.bus(dev, &bus);
	snprintf(text, (size_t)room, "0000:%02x:00.0", bus);
	DONE(0);
}

int cuDeviceTotalMem_v2(size_t *n, int dev) {
	PLAIN(cuDeviceTotalMem_v2);
	EXISTS(dev);
	*n = core.set.memory;
	DONE(0);
}

int cuDeviceGetAttribute(int *v, int attribute, int dev) {
	PLAIN(cuDeviceGetAttribute);
	EXISTS(dev);
	unsigned bus;
	core.bus(dev, &bus);
	switch (attribute) {
	case 18: *v = 0; break;                 /* INTEGRATED */
	case 33: *v = (int)bus; break;          /* PCI_BUS_ID */
	case 34: case 50: *v = 0; break;        /* PCI_DEVICE_ID, PCI_DOMAIN_ID */
	case 41: case 99: case 116: *v = 1; break; /* UNIFIED_ADDRESSING, HOST_REGISTER_SUPPORTED, GPU_DIRECT_RDMA_SUPPORTED */
	case 75: *v = 9; break;                 /* COMPUTE_CAPABILITY */
	case 76: *v = 0; break;
	case 117: *v = core.set.flush; break;   /* FLUSH_WRITES_OPTIONS */
	case 118: *v = core.set.ordering; break; /* WRITES_ORDERING */
	default: DONE(INVALID_VALUE);
	}
	DONE(0);
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev) {
	PLAIN(cuDevicePrimaryCtxRetain);
	INITIALISED();
	EXISTS(dev);
	struct context *c = &core.contexts[dev];
	c->device = dev;
	c->references++;
	*ctx = c;
	DONE(0);
}

int cuDevicePrimaryCtxRelease_v2(int dev) {
	PLAIN(cuDevicePrimaryCtxRelease_v2);
	EXISTS(dev);
	struct context *c = &core.contexts[dev];
	if (!c->references) DONE(INVALID_CONTEXT);
	if (--c->references == 0) {
		stream_drop(c);
		memory_free_all(c);
		c->lost = 0;
	}
	DONE(0);
}

static bool ours(struct context *c) { return c >= core.contexts && c < core.contexts + MAX_DEVICES; }

int cuCtxSetCurrent(void *ctx) {
	PLAIN(cuCtxSetCurrent);
	if (depth) depth--;
	if (ctx) stack[depth++] = ctx;
	DONE(0);
}

int cuCtxGetCurrent(void **ctx) {
	PLAIN(cuCtxGetCurrent);
	*ctx = context_current();
	DONE(0);
}

int cuCtxPushCurrent_v2(void *ctx) {
	PLAIN(cuCtxPushCurrent_v2);
	struct context *c = ctx;
	if (!ours(c) || !c->references) {
		core_violation("cuCtxPushCurrent_v2 of a context that nobody holds");
		DONE(INVALID_CONTEXT);
	}
	if (depth == MAX_DEPTH) {
		core_violation("%d contexts pushed on a thread and not popped", depth);
		DONE(INVALID_CONTEXT);
	}
	stack[depth++] = c;
	DONE(0);
}

/* Pops in any case: a fault here must not leave the thread in a foreign context. */
int cuCtxPopCurrent_v2(void **ctx) {
	struct context *top = context_current();
	struct hit h;
	int code = call_plain(CALL_cuCtxPopCurrent_v2, &h);
	if (depth) depth--;
	if (code) return code;
	if (ctx) *ctx = top;
	DONE(top ? 0 : INVALID_CONTEXT);
}

void context_leaks(void (*add)(const char *format, ...)) {
	for (int i = 0; i < MAX_DEVICES; i++)
		if (core.contexts[i].references) add("device %d: primary context retained %d times\n", i, core.contexts[i].references);
}
