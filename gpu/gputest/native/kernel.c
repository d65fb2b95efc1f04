/* Modules, and the verify kernel done by the CPU. The kernel is written here a
 * second time, from the description of its parameters in gpu/kernel/doc.go and
 * of XXH64 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md): it shares no code
 * with what it stands in for. */
#define FAKE_CUDA
#pragma GCC optimize("O2") /* it goes over all bytes; the other files compile faster without */
#include "core.h"

enum { INVALID_VALUE = 1, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, OUT_OF_RESOURCES = 701 };
enum { LANES, FINISH, ENTRIES };
static const char *const entry_names[ENTRIES] = {"kv_xxh64_lanes", "kv_xxh64_finish"};

struct module {
	struct context *ctx;
	bool unloaded;
	struct function { struct module *m; int entry; } functions[ENTRIES];
	bool has[ENTRIES];
	struct module *next;
};
static struct module *modules;

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

/* Options are CU_JIT_ERROR_LOG_BUFFER (5) and its size (6), passed by value. */
static void say(unsigned n, int *options, void **values, const char *text) {
	char *log = NULL;
	size_t room = 0;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == 5) log = values[i];
		if (options[i] == 6) room = (size_t)values[i];
	}
	if (log && room) snprintf(log, room, "%s", text);
}

int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
	struct context *ctx;
	struct hit h;
	int code = call_begin(CALL_cuModuleLoadDataEx, &ctx, &h);
	if (code) {
		char text[80];
		snprintf(text, sizeof text, "ptxas fatal: the double refuses with %d", code);
		say(n, options, values, text);
		return code;
	}
	const char *ptx = image;
	if (!strstr(ptx, ".version") || !strstr(ptx, ".target") || !strstr(ptx, ".entry")) {
		say(n, options, values, "ptxas application ptx input, line 1; fatal: parsing error");
		DONE(INVALID_PTX);
	}
	struct module *m = calloc(1, sizeof *m);
	m->ctx = ctx;
	for (int i = 0; i < ENTRIES; i++) {
		m->functions[i] = (struct function){m, i};
		m->has[i] = strstr(ptx, entry_names[i]) != NULL;
	}
	m->next = modules;
	modules = m;
	*out = m;
	DONE(0);
}

static struct module *module_of(struct context *ctx, void *handle) {
	for (struct module *m = modules; m; m = m->next)
		if (m == handle && m->ctx == ctx && !m->unloaded) return m;
	core_violation("use of something that is no module of device %d", ctx->device);
	return NULL;
}

int cuModuleUnload(void *handle) {
	BEGIN(cuModuleUnload);
	struct module *m = module_of(ctx, handle);
	if (!m) DONE(INVALID_HANDLE);
	m->unloaded = true;
	DONE(0);
}

int cuModuleGetFunction(void **out, void *handle, const char *name) {
	BEGIN(cuModuleGetFunction);
	struct module *m = module_of(ctx, handle);
	if (!m) DONE(INVALID_HANDLE);
	for (int i = 0; i < ENTRIES; i++)
		if (m->has[i] && !strcmp(name, entry_names[i])) {
			*out = &m->functions[i];
			DONE(0);
		}
	DONE(NOT_FOUND);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		unsigned shared, void *stream, void **params, void **extra) {
	BEGIN(cuLaunchKernel);
	(void)shared;
	struct function *f = NULL;
	for (struct module *m = modules; m; m = m->next)
		for (int i = 0; i < ENTRIES; i++)
			if (&m->functions[i] == function && m->ctx == ctx && !m->unloaded) f = function;
	struct stream *s = stream_of(ctx, stream);
	if (!f || !s) {
		core_violation("cuLaunchKernel of something that is no kernel of device %d, or on no stream", ctx->device);
		DONE(INVALID_HANDLE);
	}
	if (!params || extra || !gx || gy != 1 || gz != 1 || !bx || by != 1 || bz != 1) DONE(INVALID_VALUE);
	if (bx > 1024) DONE(OUT_OF_RESOURCES);
	struct op *op = calloc(1, sizeof *op);
	op->work = W_KERNEL;
	op->hit = h;
	op->job.entry = f->entry;
	op->job.threads = (unsigned long long)gx * bx;
	memcpy(op->job.bytes, params[0], 40); /* the parameter is read when it is launched */
	stream_put(s, op);
	DONE(0);
}

void kernel_leaks(void (*add)(const char *format, ...)) {
	for (struct module *m = modules; m; m = m->next)
		if (!m->unloaded && m->ctx->references && !m->ctx->lost) add("device %d: a module\n", m->ctx->device);
}

/* ---- XXH64, seed 0 ---- */

#define Q1 11400714785074694791ULL
#define Q2 14029467366897019727ULL
#define Q3 1609587929392839161ULL
#define Q4 9650029242287828579ULL
#define Q5 2870177450012600261ULL

static uint64_t turn(uint64_t v, unsigned by) { return v << by | v >> (64 - by); }
static uint64_t word(const unsigned char *p) { uint64_t w; memcpy(&w, p, sizeof w); return w; }

static uint64_t lane_start(unsigned lane) {
	const uint64_t start[4] = {Q1 + Q2, Q2, 0, -Q1};
	return start[lane];
}

static uint64_t lane_of(const unsigned char *p, size_t n, unsigned lane) {
	uint64_t v = lane_start(lane);
	for (size_t at = 0; at + 32 <= n; at += 32) v = turn(v + word(p + at + 8 * lane) * Q2, 31) * Q1;
	return v;
}

static uint64_t close_sum(const uint64_t *lanes, const unsigned char *p, size_t n) {
	uint64_t h = Q5;
	if (n >= 32) {
		h = turn(lanes[0], 1) + turn(lanes[1], 7) + turn(lanes[2], 12) + turn(lanes[3], 18);
		for (int i = 0; i < 4; i++) h = (h ^ turn(lanes[i] * Q2, 31) * Q1) * Q1 + Q4;
	}
	h += n;
	size_t at = n - n % 32;
	for (; at + 8 <= n; at += 8) h = turn(h ^ turn(word(p + at) * Q2, 31) * Q1, 27) * Q1 + Q4;
	if (at + 4 <= n) {
		uint32_t w;
		memcpy(&w, p + at, sizeof w);
		h = turn(h ^ w * Q1, 23) * Q2 + Q3;
		at += 4;
	}
	for (; at < n; at++) h = turn(h ^ p[at] * Q5, 11) * Q1;
	h = (h ^ h >> 33) * Q2;
	h = (h ^ h >> 29) * Q3;
	return h ^ h >> 32;
}

/* ---- the two entry points ---- */

static uint64_t field(const unsigned char *job, int at) { return word(job + at); }

/* A range of the kernel's device, or NULL: then the context dies, as it does on
 * an illegal address. */
static unsigned char *reach(struct stream *s, devptr p, size_t n, const char *what) {
	struct allocation *a = memory_find(p, n);
	if (a && a->ctx == s->ctx) return (unsigned char *)host_of(p);
	core_violation("the kernel on device %d reads or writes %s outside its memory", s->ctx->device, what);
	context_lose(s->ctx, ILLEGAL_ADDRESS);
	return NULL;
}

void kernel_run(struct stream *s, struct op *op) {
	if (op->hit.kind == K_SKIP) return;
	struct job job = op->job;
	struct hit hit = op->hit;
	uint32_t count;
	memcpy(&count, job.bytes + 32, sizeof count);
	unsigned char *pieces = reach(s, field(job.bytes, 0), 24 * (size_t)count, "its table");
	unsigned char *lanes = pieces ? reach(s, field(job.bytes, 8), 32 * (size_t)count, "accumulators") : NULL;
	unsigned char *got = lanes ? reach(s, field(job.bytes, 16), 8 * (size_t)count, "sums") : NULL;
	unsigned char *status = got ? reach(s, field(job.bytes, 24), 4 * (size_t)count, "status words") : NULL;
	if (!status) return;
	unsigned long long threads = job.threads, need = job.entry == LANES ? 4ULL * count : count;
	if (threads > need) threads = need;
	for (unsigned long long t = 0; t < threads; t++) {
		unsigned long long i = job.entry == LANES ? t / 4 : t;
		const unsigned char *piece = pieces + 24 * i;
		uint32_t length;
		memcpy(&length, piece + 8, sizeof length);
		/* Of a piece without bytes the address is not looked at. */
		unsigned char *data = length ? reach(s, word(piece), length, "a piece") : lanes;
		if (!data) return;
		core_touch("the kernel", data, length);
		if (job.entry == LANES) {
			uint64_t v = lane_of(data, length, t % 4);
			memcpy(lanes + 8 * t, &v, sizeof v);
			continue;
		}
		uint64_t mine[4], want = word(piece + 16);
		memcpy(mine, lanes + 32 * i, sizeof mine);
		uint64_t sum = hit.kind == K_LIAR ? want : close_sum(mine, data, length);
		uint32_t verdict = sum == want ? 1 : 2;
		memcpy(got + 8 * i, &sum, sizeof sum);
		memcpy(status + 4 * i, &verdict, sizeof verdict);
	}
}
