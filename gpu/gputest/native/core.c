/* The state, what it records, and who looks at it. */
#define FAKE_CUDA
#include "core.h"

#include <fcntl.h>
#include <time.h>

static void nothing(void) {}
static void no_leaks(void (*add)(const char *, ...)) { (void)add; }
static void reading_range(const char *mem, size_t n, int delta);
static void device_uuid(int device, unsigned char *out);
static void device_bus(int device, unsigned *number);

struct core core = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.fault = fault_of,
	.limit = limit_of,
	.violation = core_violation,
	.current = context_current,
	.find = memory_find,
	.at = memory_at,
	.busy = stream_uses,
	.touch = core_touch,
	.wait_release = core_wait_release,
	.lose = context_lose,
	.uuid = device_uuid,
	.bus = device_bus,
	.leaks = no_leaks,
	.reset_file = nothing,
	.reading = reading_range,
};

struct core *fake_core(void) {
	core_start();
	return &core;
}

void core_lock(void) { pthread_mutex_lock(&core.lock); }
void core_unlock(void) { pthread_mutex_unlock(&core.lock); }

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) {
	settings_default();
	const char *spec = getenv("SEALSTONE_FAKE_GPU");
	const char *wrong = spec ? faults_set(spec) : NULL;
	if (wrong) {
		fprintf(stderr, "SEALSTONE_FAKE_GPU: %s\n", wrong);
		abort(); /* a test that injects nothing must not pass */
	}
}

void core_start(void) { pthread_once(&once, start); }

/* Devices differ in a way that shows which one answered. */
static void device_uuid(int device, unsigned char *out) {
	for (int i = 0; i < 16; i++) out[i] = (unsigned char)(0x10 * (device + 1) + i);
}

static void device_bus(int device, unsigned *number) { *number = 0x17 + 8 * (unsigned)device; }

/* ---- the log, for child processes and for use by hand ---- */

void core_log(const char *format, ...) {
	const char *path = getenv("SEALSTONE_FAKE_GPU_LOG");
	if (!path || !*path) return;
	char line[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	if (n < 0) return;
	if (n > (int)sizeof line - 2) n = sizeof line - 2;
	line[n++] = '\n';
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0) return;
	if (write(fd, line, (size_t)n) < 0) { /* a log that cannot be written is no fault */ }
	close(fd);
}

/* ---- violations ---- */

enum { MAX_VIOLATIONS = 64 };
static char *violations[MAX_VIOLATIONS];
static int violation_count;

/* Records what no caller may do. Needs the lock. */
void core_violation(const char *format, ...) {
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	core_log("violation %s", text);
	if (violation_count < MAX_VIOLATIONS) violations[violation_count] = strdup(text);
	violation_count++;
}

/* ---- guards: memory that nobody may touch ---- */

struct range { const char *mem; size_t n; struct range *next; };
static struct range *guards, *readings;

static bool overlaps(const char *a, size_t an, const char *b, size_t bn) { return an && bn && a < b + bn && b < a + an; }

/* Notes that memory is read or written for a caller. Needs the lock. */
void core_touch(const char *who, const void *mem, size_t n) {
	for (struct range *g = guards; g; g = g->next)
		if (overlaps(g->mem, g->n, mem, n))
			core_violation("%s touched %zu bytes at %p after their operation had completed", who, n, mem);
}

/* The destinations of reads under way. */
static void reading_range(const char *mem, size_t n, int delta) {
	if (delta > 0) {
		struct range *r = malloc(sizeof *r);
		*r = (struct range){mem, n, readings};
		readings = r;
		return;
	}
	for (struct range **at = &readings; *at; at = &(*at)->next)
		if ((*at)->mem == mem && (*at)->n == n) {
			struct range *r = *at;
			*at = r->next;
			free(r);
			return;
		}
}

/* Says whether a read by cuFile is under way into the memory. Needs the lock. */
bool core_being_read(const char *mem, size_t n) {
	for (struct range *r = readings; r; r = r->next)
		if (overlaps(r->mem, r->n, mem, n)) return true;
	return false;
}

/* ---- hangs ---- */

/* Waits for a release, with the lock, which is free meanwhile. */
void core_wait_release(void) {
	unsigned long mine = core.released;
	core.hanging++;
	pthread_cond_broadcast(&core.changed);
	while (core.released == mine) pthread_cond_wait(&core.changed, &core.lock);
	core.hanging--;
	pthread_cond_broadcast(&core.changed);
}

/* ---- what tests ask for ---- */

static char *reply;
static size_t reply_room, reply_used;

static void add(const char *format, ...) {
	if (reply_used >= reply_room) return;
	va_list args;
	va_start(args, format);
	int n = vsnprintf(reply + reply_used, reply_room - reply_used, format, args);
	va_end(args);
	if (n > 0) reply_used += (size_t)n;
}

static void reset(void) {
	faults_clear();
	core.released++;
	for (int i = 0; i < violation_count && i < MAX_VIOLATIONS; i++) free(violations[i]);
	violation_count = 0;
	while (guards) {
		struct range *g = guards;
		guards = g->next;
		free(g);
	}
	memset(core.calls, 0, sizeof core.calls);
	memset(core.fired, 0, sizeof core.fired);
	core.reset_file();
	settings_default();
	pthread_cond_broadcast(&core.changed);
}

/* Waits until nothing is under way; false after a minute of work that is stuck. */
static bool wait_idle(void) {
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 60;
	while (!stream_idle() || core.late)
		if (pthread_cond_timedwait(&core.changed, &core.lock, &end) == ETIMEDOUT) return false;
	return true;
}

static const char *command(const char *text) {
	if (!strncmp(text, "set ", 4)) return faults_set(text + 4);
	if (!strcmp(text, "clear")) faults_clear();
	else if (!strcmp(text, "reset")) reset();
	else if (!strcmp(text, "close")) stream_close();
	else if (!strcmp(text, "idle")) return wait_idle() ? NULL : "work on a stream does not end";
	else if (!strcmp(text, "hanging")) add("%d\n", core.hanging);
	else if (!strcmp(text, "release")) {
		core.released++;
		pthread_cond_broadcast(&core.changed);
	} else if (!strcmp(text, "counts")) {
		for (int i = 0; i < CALLS; i++) if (core.calls[i]) add("%s %ld %ld\n", call_names[i], core.calls[i], core.fired[i]);
	} else if (!strcmp(text, "violations")) {
		for (int i = 0; i < violation_count && i < MAX_VIOLATIONS; i++) add("%s\n", violations[i]);
		if (violation_count > MAX_VIOLATIONS) add("and %d more\n", violation_count - MAX_VIOLATIONS);
	} else if (!strcmp(text, "leaks")) {
		memory_leaks(add);
		stream_leaks(add);
		kernel_leaks(add);
		core.leaks(add);
		context_leaks(add);
	} else return "unknown command";
	return NULL;
}

/* Runs a command of the test. Returns 0, or 1 with the reason in out. */
int fake_gpu_command(const char *text, char *out, size_t room) {
	core_start();
	core_lock();
	reply = out;
	reply_room = room;
	reply_used = 0;
	if (room) *out = 0;
	const char *wrong = command(text);
	if (wrong) {
		reply_used = 0;
		add("%s: %s", text, wrong);
	}
	core_unlock();
	return wrong != NULL;
}

/* Copies from or to device memory, past all streams. */
int fake_gpu_peek(devptr p, void *out, size_t n) {
	core_lock();
	struct allocation *a = memory_find(p, n);
	if (a) memcpy(out, host_of(p), n);
	core_unlock();
	return a ? 0 : 1;
}

int fake_gpu_poke(devptr p, const void *in, size_t n) {
	core_lock();
	struct allocation *a = memory_find(p, n);
	if (a) memcpy(host_of(p), in, n);
	core_unlock();
	return a ? 0 : 1;
}

/* From now on, until it is undone, nobody may touch the memory: device memory by
 * its device address, host memory by its own. */
void fake_gpu_guard(devptr p, size_t n, int on) {
	const char *mem = p >= BIAS ? host_of(p) : (char *)(uintptr_t)p;
	core_lock();
	if (on) {
		struct range *g = malloc(sizeof *g);
		*g = (struct range){mem, n, guards};
		guards = g;
	} else {
		for (struct range **at = &guards; *at; at = &(*at)->next)
			if ((*at)->mem == mem && (*at)->n == n) {
				struct range *g = *at;
				*at = g->next;
				free(g);
				break;
			}
	}
	core_unlock();
}
