/* Asynchronous copies: what is checked when they are queued, and what is done,
 * and checked again, when they run. */
#define FAKE_CUDA
#pragma GCC optimize("O2") /* it goes over all bytes; the other files compile faster without */
#include "core.h"

enum { INVALID_VALUE = 1, INVALID_HANDLE = 400 };

static bool host_source(struct op *op) { return op->work == W_H2D; }
static bool host_destination(struct op *op) { return op->work == W_D2H; }

/* A number that changes with the content. */
uint64_t snapshot_of(const void *p, size_t n) {
	const unsigned char *b = p;
	uint64_t h = 0x2545F4914F6CDD1DULL ^ n;
	for (; n >= 8; n -= 8, b += 8) {
		uint64_t w;
		memcpy(&w, b, 8);
		h = (h ^ w) * 0x9E3779B97F4A7C15ULL;
		h ^= h >> 29;
	}
	for (; n; n--, b++) h = (h ^ *b) * 0x100000001B3ULL;
	return h;
}

static const char *name_of(struct op *op) {
	switch (op->work) {
	case W_H2D: return "cuMemcpyHtoDAsync_v2";
	case W_D2H: return "cuMemcpyDtoHAsync_v2";
	case W_D2D: return "cuMemcpyDtoDAsync_v2";
	case W_MEMSET: return "cuMemsetD8Async";
	default: return "cuLaunchKernel";
	}
}

/* Host memory that a copy works on may not change until it has run. Returns
 * false if it is gone. */
static bool host_unchanged(struct op *op) {
	const char *mem = host_source(op) ? op->src : op->dst;
	if (!memory_mapped(mem, op->n)) {
		core_violation("%s: its host memory was unmapped before it had run", name_of(op));
		return false;
	}
	if (snapshot_of(mem, op->n) != op->snapshot) {
		core_violation("%s: its host memory of %zu bytes was written before it had run: no event was waited for", name_of(op), op->n);
	}
	return true;
}

/* Does the work, with the lock. */
void op_run(struct stream *s, struct op *op) {
	if (op->work == W_KERNEL) {
		kernel_run(s, op);
		return;
	}
	if (op->work == W_NOTHING || op->work == W_MARK || op->work == W_WAIT || !op->n) return;
	if ((host_source(op) || host_destination(op)) && !host_unchanged(op)) return;
	size_t n = op->hit.kind == K_STALE ? 0 : op->hit.kind == K_HALF ? op->n / 2 : op->n;
	if (op->src) core_touch(name_of(op), op->src, n);
	core_touch(name_of(op), op->dst, n);
	if (op->work == W_MEMSET) memset(op->dst, op->value, n);
	else memmove(op->dst, op->src, n);
	if (op->hit.kind == K_FLIP) op->dst[op->n / 2] ^= 0x10;
}

/* Queues a copy. The lock is held and freed here. */
static int put(struct context *ctx, struct op want, void *stream) {
	int code = 0;
	struct stream *s = stream_of(ctx, stream);
	if (!s) code = INVALID_HANDLE;
	else if (want.n) {
		const char *mem = host_source(&want) ? want.src : host_destination(&want) ? want.dst : NULL;
		if (mem && !memory_pinned(mem, want.n)) {
			core_violation("%s: host memory at %p is not pinned: the copy would not be asynchronous", name_of(&want), mem);
			if (!memory_mapped(mem, want.n)) code = INVALID_VALUE;
		}
		if (!code) stream_races(s, &want, name_of(&want));
		if (!code && core_being_read(want.dst, want.n)) core_violation("%s: writes where cuFileRead is writing", name_of(&want));
		if (!code && mem) want.snapshot = snapshot_of(mem, want.n);
	}
	if (!code) {
		struct op *op = malloc(sizeof *op);
		*op = want;
		stream_put(s, op);
	}
	core_unlock();
	return code;
}

/* The host address of a range of device memory, or NULL and the code with the
 * lock free. */
static char *device(struct context *ctx, devptr p, size_t n, int *code) {
	struct allocation *a = memory_find(p, n);
	*code = 0;
	if (a && a->ctx == ctx) return host_of(p);
	if (a) core_violation("a copy on device %d touches memory of device %d", ctx->device, a->ctx->device);
	else core_violation("a copy on device %d of %zu bytes leaves its allocation or touches freed memory", ctx->device, n);
	*code = INVALID_VALUE;
	core_unlock();
	return NULL;
}

#define BEGIN(name) \
	struct context *ctx; \
	struct hit h; \
	int code = call_begin(CALL_##name, &ctx, &h); \
	if (code) return code

int cuMemcpyHtoDAsync_v2(devptr dst, const void *src, size_t n, void *stream) {
	BEGIN(cuMemcpyHtoDAsync_v2);
	char *to = device(ctx, dst, n, &code);
	if (!to) return code;
	return put(ctx, (struct op){.work = W_H2D, .hit = h, .dst = to, .src = (char *)src, .n = n}, stream);
}

int cuMemcpyDtoHAsync_v2(void *dst, devptr src, size_t n, void *stream) {
	BEGIN(cuMemcpyDtoHAsync_v2);
	char *from = device(ctx, src, n, &code);
	if (!from) return code;
	return put(ctx, (struct op){.work = W_D2H, .hit = h, .dst = dst, .src = from, .n = n}, stream);
}

int cuMemcpyDtoDAsync_v2(devptr dst, devptr src, size_t n, void *stream) {
	BEGIN(cuMemcpyDtoDAsync_v2);
	char *to = device(ctx, dst, n, &code), *from;
	if (!to || !(from = device(ctx, src, n, &code))) return code;
	return put(ctx, (struct op){.work = W_D2D, .hit = h, .dst = to, .src = from, .n = n}, stream);
}

int cuMemsetD8Async(devptr p, unsigned char value, size_t n, void *stream) {
	BEGIN(cuMemsetD8Async);
	char *to = device(ctx, p, n, &code);
	if (!to) return code;
	return put(ctx, (struct op){.work = W_MEMSET, .hit = h, .dst = to, .n = n, .value = value}, stream);
}
