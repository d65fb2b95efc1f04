/* Device memory, which is host memory at other addresses, and pinned memory. */
#define FAKE_CUDA
#include "core.h"

#include <sys/mman.h>

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713 };

#define GRANULE ((size_t)64 << 10) /* alignment of allocations, as GPU pages have */
#define FILL 0xDD                  /* new memory holds this, so that nothing is right by luck */

char *host_of(devptr p) { return (char *)(uintptr_t)(p - BIAS); }

/* The allocation that holds the whole range; NULL for none. Needs the lock. */
struct allocation *memory_find(devptr p, size_t n) {
	if (p < BIAS) return NULL;
	char *mem = host_of(p);
	for (struct allocation *a = core.allocations; a; a = a->next)
		if (mem >= a->mem && mem - a->mem <= (ptrdiff_t)a->n && n <= a->n - (size_t)(mem - a->mem)) return a;
	return NULL;
}

/* The allocation that starts there. */
struct allocation *memory_at(devptr base) {
	struct allocation *a = memory_find(base, 0);
	return a && a->mem == host_of(base) ? a : NULL;
}

bool memory_pinned(const void *p, size_t n) {
	for (struct pinned *r = core.pinned; r; r = r->next)
		if ((const char *)p >= r->mem && (const char *)p + n <= r->mem + r->n) return true;
	return false;
}

/* Says whether the whole range is mapped. */
bool memory_mapped(const void *p, size_t n) {
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)p / page * page, to = (uintptr_t)p + n;
	return n == 0 || msync((void *)from, to - from, MS_ASYNC) == 0;
}

static size_t used_by(struct context *c) {
	size_t sum = 0;
	for (struct allocation *a = core.allocations; a; a = a->next)
		if (a->ctx == c) sum += a->n;
	return sum;
}

static size_t pinned_bytes(void) {
	size_t sum = 0;
	for (struct pinned *r = core.pinned; r; r = r->next) sum += r->n;
	return sum;
}

#define BEGIN(name) \
	struct context *ctx; \
	struct hit h; \
	int code = call_begin(CALL_##name, &ctx, &h); \
	if (code) return code
#define DONE(...) \
	do { \
		int result_ = (__VA_ARGS__); \
		core_unlock(); \
		return result_; \
	} while (0)

/* Says whether n more bytes pass the limit of a call, and counts a refusal. */
static bool over_limit(int call, int device, size_t used, size_t n) {
	long limit = limit_of(call, device);
	if (limit < 0 || used + n <= (size_t)limit) return false;
	core.fired[call]++;
	core_log("fault %s limit", call_names[call]);
	return true;
}

int cuMemAlloc_v2(devptr *p, size_t n) {
	BEGIN(cuMemAlloc_v2);
	if (!n) DONE(INVALID_VALUE);
	size_t used = used_by(ctx);
	if (used + n > core.set.memory || over_limit(CALL_cuMemAlloc_v2, ctx->device, used, n)) DONE(OUT_OF_MEMORY);
	size_t room = (n + 2 * GRANULE - 1) / GRANULE * GRANULE;
	struct allocation *a = calloc(1, sizeof *a);
	char *mem = NULL;
	if (!a || posix_memalign((void **)&mem, GRANULE, room)) {
		free(a);
		DONE(OUT_OF_MEMORY);
	}
	memset(mem, FILL, room);
	*a = (struct allocation){.ctx = ctx, .mem = mem, .n = n, .next = core.allocations};
	core.allocations = a;
	*p = (devptr)(uintptr_t)mem + BIAS;
	DONE(0);
}

/* Unlinks and frees. Bytes past the end must be as they were. */
static void drop(struct allocation **at) {
	struct allocation *a = *at;
	size_t room = (a->n + 2 * GRANULE - 1) / GRANULE * GRANULE;
	for (size_t i = a->n; i < room; i++)
		if ((unsigned char)a->mem[i] != FILL) {
			core_violation("device memory of %zu bytes was written past its end", a->n);
			break;
		}
	*at = a->next;
	free(a->mem);
	free(a);
}

int cuMemFree_v2(devptr p) {
	BEGIN(cuMemFree_v2);
	for (struct allocation **at = &core.allocations; *at; at = &(*at)->next) {
		struct allocation *a = *at;
		if (p < BIAS || a->mem != host_of(p)) continue;
		if (a->ctx != ctx) core_violation("cuMemFree_v2 in the context of device %d of memory of device %d", ctx->device, a->ctx->device);
		if (a->registered) core_violation("cuMemFree_v2 of memory that is registered with cuFile: nvidia-fs may deadlock");
		if (stream_uses(a->mem, a->n)) core_violation("cuMemFree_v2 of memory that a stream still works on");
		if (core_being_read(a->mem, a->n)) core_violation("cuMemFree_v2 of memory that cuFileRead still writes to");
		stream_cancel(a->mem, a->n);
		drop(at);
		DONE(0);
	}
	core_violation("cuMemFree_v2 of an address that is not allocated");
	DONE(INVALID_VALUE);
}

/* The context is gone and its memory with it. */
void memory_free_all(struct context *ctx) {
	for (struct allocation **at = &core.allocations; *at;) {
		if ((*at)->ctx != ctx) {
			at = &(*at)->next;
			continue;
		}
		if (!ctx->lost) core_violation("the context of device %d was released with %zu bytes allocated", ctx->device, (*at)->n);
		drop(at);
	}
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
	BEGIN(cuMemGetInfo_v2);
	*total = core.set.memory;
	*free_bytes = core.set.memory - used_by(ctx);
	DONE(0);
}

int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
	BEGIN(cuMemHostRegister_v2);
	if (!n || !(flags & 1)) DONE(INVALID_VALUE); /* PORTABLE: other contexts copy from it too */
	if (!memory_mapped(p, n)) {
		core_violation("cuMemHostRegister_v2 of memory that is not mapped");
		DONE(INVALID_VALUE);
	}
	for (struct pinned *r = core.pinned; r; r = r->next)
		if ((char *)p < r->mem + r->n && r->mem < (char *)p + n) DONE(ALREADY_REGISTERED);
	if (over_limit(CALL_cuMemHostRegister_v2, ctx->device, pinned_bytes(), n)) DONE(OUT_OF_MEMORY);
	struct pinned *r = malloc(sizeof *r);
	*r = (struct pinned){p, n, ctx, core.pinned};
	core.pinned = r;
	DONE(0);
}

int cuMemHostUnregister(void *p) {
	BEGIN(cuMemHostUnregister);
	for (struct pinned **at = &core.pinned; *at; at = &(*at)->next) {
		struct pinned *r = *at;
		if (r->mem != p) continue;
		if (stream_uses(r->mem, r->n)) core_violation("cuMemHostUnregister of memory that a stream still works on");
		stream_cancel(r->mem, r->n);
		*at = r->next;
		free(r);
		DONE(0);
	}
	DONE(NOT_REGISTERED);
}

int cuPointerSetAttribute(const void *value, int attribute, devptr p) {
	BEGIN(cuPointerSetAttribute);
	DONE(!value || attribute != 6 || !memory_at(p) ? INVALID_VALUE : 0);
}

int cuFlushGPUDirectRDMAWrites(int target, int scope) {
	BEGIN(cuFlushGPUDirectRDMAWrites);
	if (target != 0 || (scope != 100 && scope != 200)) DONE(INVALID_VALUE);
	DONE(core.set.flush & 1 ? 0 : 801);
}

/* What a dead context holds cannot be given back, and is no leak. */
void memory_leaks(void (*add)(const char *format, ...)) {
	for (struct allocation *a = core.allocations; a; a = a->next)
		if (!a->ctx->lost) add("device %d: %zu bytes of device memory at %#llx\n", a->ctx->device, a->n, (devptr)(uintptr_t)a->mem + BIAS);
	for (struct pinned *r = core.pinned; r; r = r->next)
		if (!r->ctx->lost) add("%zu bytes of pinned memory at %p\n", r->n, (void *)r->mem);
}
