/* The double of libcufile: pread into the double's device memory. */
#include "core.h"

#include <fcntl.h>
#include <sys/stat.h>

extern struct core *sibling(void);

typedef struct { int err, cu_err; } E;
typedef struct { int type; union { int fd; void *h; } handle; const void *ops; } descriptor;

enum {
	DRIVER_NOT_INITIALIZED = 5001, CUDA_DRIVER_ERROR = 5011, POINTER_INVALID = 5012, CONTEXT_MISMATCH = 5015,
	INVALID_MAPPING_RANGE = 5017, INVALID_FILE_TYPE = 5018, INVALID_OPEN_FLAG = 5019, INVALID_VALUE = 5022,
	ALREADY_REGISTERED = 5023, NOT_REGISTERED = 5024, ALREADY_OPEN = 5026, HANDLE_NOT_REGISTERED = 5027,
	HANDLE_ALREADY_REGISTERED = 5028, INTERNAL = 5030, PINNING_FAILED = 5036, INVALID_CONTEXT = 5047,
};
enum { PAGE = 4096 };

struct handle {
	int fd;
	dev_t dev;
	ino_t ino;
	bool gone;
	struct handle *next;
};

struct counters { uint64_t bytes, reads, p2p, nvfs, posix, unaligned, errors; };

static struct handle *handles;
static int opened; /* cuFileDriverOpen less Close */
static bool posix; /* what DriverOpen decided: everything by way of the CPU */
static bool allow_compat = true, force_compat, staged[16];
static int stats_level;
static bool stats_on;
static struct counters counters[MAX_DEVICES];

static E result(int err) { return (E){err, 0}; }

/* ---- beginning and end of calls ---- */

static void leaks(void (*add)(const char *format, ...));
static void reset(void);

static struct core *begin(void) {
	struct core *core = sibling();
	pthread_mutex_lock(&core->lock);
	core->leaks = leaks;
	core->reset_file = reset;
	return core;
}

static void end(struct core *core) { pthread_mutex_unlock(&core->lock); }

static int device_now(struct core *core) {
	struct context *c = core->current();
	return c ? c->device : -1;
}

/* Begins a call and lets its fault happen. A returned E with err set ends it. */
#define BEGIN(name) \
	struct core *core = begin(); \
	struct hit h = core->fault(CALL_##name, device_now(core)); \
	if (h.kind == K_HANG) core->wait_release(); \
	if (h.kind == K_CODE && h.arg) DONE(h.arg >= 5000 ? (E){(int)h.arg, 0} : (E){CUDA_DRIVER_ERROR, (int)h.arg})
#define DONE(...) \
	do { \
		E result_ = __VA_ARGS__; \
		end(core); \
		return result_; \
	} while (0)
#define NEEDS_OPEN() if (!opened) DONE(result(DRIVER_NOT_INITIALIZED))
/* The guide: all calls need a valid context to be current. */
#define NEEDS_CONTEXT() \
	struct context *ctx = core->current(); \
	if (!ctx || !ctx->references) DONE(result(INVALID_CONTEXT)); \
	if (h.kind == K_LOST && !ctx->lost) core->lose(ctx, h.arg ? (int)h.arg : 719); \
	if (ctx->lost) DONE(((E){CUDA_DRIVER_ERROR, ctx->lost}))

/* ---- the driver ---- */

E cuFileDriverOpen(void) {
	BEGIN(cuFileDriverOpen);
	bool none = core->set.route == ROUTE_NONE;
	if (none && !allow_compat && !force_compat) DONE(result(DRIVER_NOT_INITIALIZED));
	posix = none || force_compat;
	opened++;
	DONE(result(0));
}

static E close_driver(struct core *core) {
	if (!opened) return result(DRIVER_NOT_INITIALIZED);
	if (--opened == 0)
		for (struct handle *x = handles; x; x = x->next)
			if (!x->gone) {
				core->violation("cuFileDriverClose with a file still registered");
				break;
			}
	return result(0);
}

E cuFileDriverClose_v2(void) { BEGIN(cuFileDriverClose_v2); DONE(close_driver(core)); }
E cuFileDriverClose(void) { BEGIN(cuFileDriverClose); DONE(close_driver(core)); }

E cuFileGetVersion(int *v) {
	BEGIN(cuFileGetVersion);
	*v = core->set.file_version;
	DONE(result(0));
}

E cuFileDriverGetProperties(void *out) {
	BEGIN(cuFileDriverGetProperties);
	NEEDS_OPEN();
	unsigned char p[56] = {0};
	unsigned nvfs = core->set.route == ROUTE_NVFS, u;
	uint64_t kb = 16384;
	memcpy(p, (unsigned[]){nvfs ? 2 : 0, nvfs ? 28 : 0}, 8);
	memcpy(p + 16, &kb, 8);
	u = nvfs || core->set.route == ROUTE_P2P ? 1u << 4 : 0; /* NVMe */
	memcpy(p + 24, &u, 4);
	u = allow_compat ? 1u << 1 : 0;
	memcpy(p + 28, &u, 4);
	memcpy(p + 36, (unsigned[]){131072, 1024, 33554432, 128, 10}, 20);
	memcpy(out, p, sizeof p);
	DONE(result(0));
}

/* ---- parameters: ALLOW_COMPAT_MODE 1, FORCE_COMPAT_MODE 2, to 13 ---- */

static int parameters(struct core *core) { return core->set.file_version >= 1190 ? 14 : 12; }

static bool *parameter(int which) { return which == 1 ? &allow_compat : which == 2 ? &force_compat : &staged[which]; }

E cuFileGetParameterBool(int which, bool *v) {
	BEGIN(cuFileGetParameterBool);
	if (which < 0 || which >= parameters(core)) DONE(result(INVALID_VALUE));
	*v = *parameter(which);
	if (which == 1 && core->set.compat == 0) *v = false;
	DONE(result(0));
}

E cuFileSetParameterBool(int which, bool v) {
	BEGIN(cuFileSetParameterBool);
	if (which < 0 || which >= parameters(core)) DONE(result(INVALID_VALUE));
	if (opened) DONE(result(ALREADY_OPEN));
	*parameter(which) = v;
	DONE(result(0));
}

E cuFileSetParameterString(int which, const char *v) {
	BEGIN(cuFileSetParameterString);
	if (which < 0 || which > 2 || !v) DONE(result(INVALID_VALUE));
	if (opened) DONE(result(ALREADY_OPEN));
	DONE(result(0));
}

/* ---- files and buffers ---- */

static struct handle *handle_of(void *p) {
	for (struct handle *h = handles; h; h = h->next)
		if (h == p && !h->gone) return h;
	return NULL;
}

/* The descriptor must still be the file that was registered. */
static bool same_file(struct handle *h) {
	struct stat st;
	return !fstat(h->fd, &st) && st.st_dev == h->dev && st.st_ino == h->ino;
}

E cuFileHandleRegister(void **out, descriptor *d) {
	BEGIN(cuFileHandleRegister);
	NEEDS_OPEN();
	NEEDS_CONTEXT();
	if (!out || !d || d->type != 1 || d->ops) DONE(result(INVALID_VALUE));
	struct stat st;
	int fd = d->handle.fd, flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fstat(fd, &st)) DONE(result(INVALID_VALUE));
	if (!S_ISREG(st.st_mode)) DONE(result(INVALID_FILE_TYPE));
	if (flags & (O_APPEND | O_NOFOLLOW | O_NOATIME) || (flags & O_TMPFILE) == O_TMPFILE) DONE(result(INVALID_OPEN_FLAG));
	for (struct handle *x = handles; x; x = x->next)
		if (!x->gone && x->fd == fd) DONE(result(HANDLE_ALREADY_REGISTERED));
	struct handle *x = malloc(sizeof *x);
	*x = (struct handle){fd, st.st_dev, st.st_ino, false, handles};
	handles = x;
	*out = x;
	DONE(result(0));
}

void cuFileHandleDeregister(void *p) {
	struct core *core = begin();
	struct hit f = core->fault(CALL_cuFileHandleDeregister, device_now(core));
	if (f.kind == K_HANG) core->wait_release();
	struct handle *h = handle_of(p);
	if (!h) core->violation("cuFileHandleDeregister of something that is not registered");
	else {
		if (!same_file(h)) core->violation("descriptor %d was closed before cuFileHandleDeregister", h->fd);
		h->gone = true;
	}
	end(core);
}

static size_t registered_bytes(struct core *core, struct context *ctx) {
	size_t sum = 0;
	for (struct allocation *a = core->allocations; a; a = a->next)
		if (a->ctx == ctx) sum += a->registered;
	return sum;
}

E cuFileBufRegister(const void *base, size_t n, int flags) {
	BEGIN(cuFileBufRegister);
	NEEDS_OPEN();
	NEEDS_CONTEXT();
	struct allocation *a = core->at((devptr)(uintptr_t)base);
	if (flags || !n) DONE(result(INVALID_VALUE));
	if (!a) DONE(result(POINTER_INVALID));
	if (a->ctx != ctx) DONE(result(CONTEXT_MISMATCH));
	if (n > a->n) DONE(result(INVALID_MAPPING_RANGE));
	if (a->registered) DONE(result(ALREADY_REGISTERED));
	size_t used = registered_bytes(core, ctx);
	long limit = core->limit(CALL_cuFileBufRegister, ctx->device);
	if (used + n > (size_t)core->set.bar1_mib << 20) DONE(result(PINNING_FAILED));
	if (limit >= 0 && used + n > (size_t)limit) {
		core->fired[CALL_cuFileBufRegister]++;
		DONE(result(PINNING_FAILED));
	}
	a->registered = n;
	DONE(result(0));
}

E cuFileBufDeregister(const void *base) {
	BEGIN(cuFileBufDeregister);
	NEEDS_CONTEXT();
	struct allocation *a = core->at((devptr)(uintptr_t)base);
	if (!a || !a->registered) DONE(result(NOT_REGISTERED));
	a->registered = 0;
	DONE(result(0));
}

/* ---- reads ---- */

/* Reads from the file into plain memory, by whole pages, as O_DIRECT needs it.
 * Returns bytes, or -1 with errno. */
static ssize_t load(int fd, char *to, size_t n, off_t from) {
	off_t start = from / PAGE * PAGE;
	size_t room = (size_t)(from - start) + n, got = 0;
	char *mem;
	room = (room + PAGE - 1) / PAGE * PAGE;
	if (posix_memalign((void **)&mem, PAGE, room ? room : PAGE)) {
		errno = ENOMEM;
		return -1;
	}
	while (got < room) {
		ssize_t r = pread(fd, mem + got, room - got, start + (off_t)got);
		if (r < 0 && errno == EINTR) continue;
		if (r < 0) {
			int keep = errno;
			free(mem);
			errno = keep;
			return -1;
		}
		if (r == 0) break;
		got += (size_t)r;
		if (r % PAGE) break; /* the end of the file */
	}
	size_t skip = (size_t)(from - start), have = got > skip ? got - skip : 0;
	if (have > n) have = n;
	memcpy(to, mem + skip, have);
	free(mem);
	return (ssize_t)have;
}

/* Puts bytes into device memory, with the lock. Memory that is gone is what a
 * quarantine is there to prevent. */
static void land(struct core *core, const char *who, devptr p, const char *from, size_t n) {
	struct allocation *a = core->find(p, n);
	if (!a) {
		core->violation("%s wrote %zu bytes to device memory that had been freed", who, n);
		return;
	}
	core->touch(who, (char *)(uintptr_t)(p - BIAS), n);
	memcpy((char *)(uintptr_t)(p - BIAS), from, n);
}

struct later { struct core *core; devptr p; char *bytes; size_t n; };

static void *land_later(void *arg) {
	struct later *l = arg;
	usleep((useconds_t)l->core->set.late_us);
	pthread_mutex_lock(&l->core->lock);
	land(l->core, "a late write of cuFileRead", l->p, l->bytes, l->n);
	l->core->late--;
	pthread_cond_broadcast(&l->core->changed);
	pthread_mutex_unlock(&l->core->lock);
	free(l->bytes);
	free(l);
	return NULL;
}

/* Starts a thread that writes the bytes some time after the call returned. It
 * owns them. */
static void start_later(struct core *core, devptr p, char *bytes, size_t n) {
	struct later *l = malloc(sizeof *l);
	pthread_t thread;
	*l = (struct later){core, p, bytes, n};
	core->late++;
	if (pthread_create(&thread, NULL, land_later, l)) abort();
	pthread_detach(thread);
}

/* Where the neighbour's bytes are: beside the destination within the registered
 * buffer, which is all that the device can reach; 0 if there is no room. */
static devptr neighbour(struct allocation *a, devptr p, size_t n) {
	devptr base = (devptr)(uintptr_t)a->mem + BIAS;
	if (p + 2 * n <= base + a->n) return p + n;
	if (p >= base + n) return p - n;
	return 0;
}

static void count(struct core *core, int device, size_t n, off_t file_offset, devptr p, bool failed) {
	struct counters *c = &counters[device];
	if (!stats_on || stats_level < 3) return;
	bool aligned = n % PAGE == 0 && file_offset % PAGE == 0 && p % PAGE == 0;
	c->reads++;
	c->bytes += n;
	if (failed) c->errors++;
	if (!aligned) c->unaligned++;
	if (posix || !aligned) c->posix++;
	else if (core->set.route == ROUTE_P2P) c->p2p++;
	else c->nvfs++;
}

/* What is wrong with a read, as a code, or 0. */
static int refuse(struct core *core, struct handle *h, devptr base, devptr p, size_t n, struct allocation **a) {
	struct context *ctx = core->current();
	if (!opened) return DRIVER_NOT_INITIALIZED;
	if (!ctx || !ctx->references) return INVALID_CONTEXT;
	if (ctx->lost) return CUDA_DRIVER_ERROR;
	if (!h) return HANDLE_NOT_REGISTERED;
	if (!same_file(h)) {
		core->violation("descriptor %d of a registered file was closed, and its number is in use again or free", h->fd);
		return HANDLE_NOT_REGISTERED;
	}
	*a = core->at(base);
	if (!*a) return POINTER_INVALID;
	if ((*a)->ctx != ctx) return CONTEXT_MISMATCH;
	size_t within = (*a)->registered ? (*a)->registered : (*a)->n;
	if (p - base > within || n > within - (p - base)) return INVALID_MAPPING_RANGE;
	if (p != base && !(*a)->registered) return NOT_REGISTERED; /* offsets are for registered buffers */
	if (core->busy((char *)(uintptr_t)(p - BIAS), n)) core->violation("cuFileRead into memory that a stream still works on: it is ordered with none");
	return 0;
}

/* Does the read, with what its fault makes of it. The lock is held. */
static ssize_t transfer(struct core *core, struct hit f, struct handle *h, struct allocation *a, devptr p, size_t n, off_t from) {
	char *bytes = malloc(n ? n : 1);
	size_t want = f.kind == K_SHORT || f.kind == K_HALF ? n / 2 : n;
	int fd = h->fd;
	core->reading((char *)(uintptr_t)(p - BIAS), n, 1);
	pthread_mutex_unlock(&core->lock);
	ssize_t got = load(fd, bytes, want, f.kind == K_SHIFT ? from + PAGE : from);
	int keep = errno;
	pthread_mutex_lock(&core->lock);
	core->reading((char *)(uintptr_t)(p - BIAS), n, -1);
	errno = keep;
	if (got < 0) {
		free(bytes);
		return -1;
	}
	devptr to = p;
	if (f.kind == K_NEIGHBOUR) to = neighbour(a, p, (size_t)got);
	if (f.kind == K_FLIP && got) bytes[got / 2] ^= 0x10;
	if (f.kind == K_LATE) {
		start_later(core, to, bytes, (size_t)got);
		return (ssize_t)n;
	}
	if (f.kind != K_STALE && to) land(core, "cuFileRead", to, bytes, (size_t)got);
	free(bytes);
	if (f.kind == K_OVER) return (ssize_t)n + PAGE;
	bool lies = f.kind == K_HALF || f.kind == K_SHIFT || f.kind == K_STALE || f.kind == K_NEIGHBOUR;
	return lies ? (ssize_t)n : got;
}

ssize_t cuFileRead(void *handle, void *base_pointer, size_t n, off_t file_offset, off_t buf_offset) {
	devptr base = (devptr)(uintptr_t)base_pointer, p = base + (devptr)buf_offset;
	struct core *core = begin();
	struct context *ctx = core->current();
	int device = device_now(core);
	struct hit f = core->fault(CALL_cuFileRead, device);
	ssize_t done;
	int code = 0, error = 0;
	if (f.kind == K_LOST && ctx && !ctx->lost) core->lose(ctx, f.arg ? (int)f.arg : 719);
	if (f.kind == K_HANG) core->wait_release();
	if (f.kind == K_CODE) done = f.arg > 0 ? -f.arg : f.arg;
	else if (f.kind == K_ERRNO) done = -1, error = (int)f.arg;
	else {
		struct allocation *a = NULL;
		struct handle *h = handle_of(handle);
		code = refuse(core, h, base, p, n, &a);
		if (f.kind == K_HANG && code == POINTER_INVALID) core->violation("device memory was freed while cuFileRead was hanging in it");
		if (code) done = -code;
		else if (f.kind == K_ZERO) done = 0;
		else {
			done = transfer(core, f, h, a, p, n, file_offset);
			error = done < 0 ? errno : 0;
		}
	}
	if (device >= 0) count(core, device, done > 0 ? (size_t)done : 0, file_offset, p, done < 0);
	end(core);
	if (error) errno = error;
	return done;
}

/* ---- statistics ---- */

E cuFileSetStatsLevel(int level) {
	BEGIN(cuFileSetStatsLevel);
	if (level < 0 || level > 3) DONE(result(INVALID_VALUE));
	stats_level = level;
	DONE(result(0));
}

E cuFileStatsStart(void) { BEGIN(cuFileStatsStart); stats_on = true; DONE(result(0)); }
E cuFileStatsStop(void) { BEGIN(cuFileStatsStop); stats_on = false; DONE(result(0)); }
E cuFileStatsReset(void) { BEGIN(cuFileStatsReset); memset(counters, 0, sizeof counters); DONE(result(0)); }

/* CUfileStatsLevel3_t: 5000 bytes up to CUDA 13.2, 5112 in 13.4. */
E cuFileGetStatsL3(void *out) {
	BEGIN(cuFileGetStatsL3);
	size_t grown = core->set.file_version >= 1190 ? 112 : 0;
	unsigned char *b = out;
	memset(b, 0, 5000 + grown);
	uint32_t n = (uint32_t)core->set.devices;
	memcpy(b + 1024 + grown, &n, sizeof n);
	for (int d = 0; d < core->set.devices; d++) {
		unsigned char *e = b + 1032 + grown + 248 * d;
		struct counters *c = &counters[d];
		core->uuid(d, e);
		memcpy(e + 16, &c->bytes, 8);
		memcpy(e + 48, (uint64_t[]){c->reads, c->p2p, c->nvfs, c->posix, c->unaligned}, 40);
		memcpy(e + 112, &c->errors, 8);
	}
	DONE(result(0));
}

/* ---- for tests ---- */

static void leaks(void (*add)(const char *format, ...)) {
	struct core *core = sibling();
	for (struct handle *h = handles; h; h = h->next)
		if (!h->gone) add("descriptor %d registered with cuFile\n", h->fd);
	for (struct allocation *a = core->allocations; a; a = a->next)
		if (a->registered && !a->ctx->lost) add("device %d: %zu bytes registered with cuFile\n", a->ctx->device, a->registered);
	if (opened) add("cuFile opened %d times\n", opened);
}

static void reset(void) {
	allow_compat = true;
	force_compat = false;
	memset(staged, 0, sizeof staged);
	memset(counters, 0, sizeof counters);
	stats_level = 0;
	stats_on = false;
}
