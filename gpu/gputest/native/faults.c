/* Which call fails how: "call=kind[:arg][/device][@from[+count]],...". A kind
 * that is a number is the code to return. Other keys are settings. */
#define FAKE_CUDA
#include "core.h"

#define NAME(name) #name,
const char *const call_names[CALLS] = {CUDA_CALLS(NAME) CUFILE_CALLS(NAME) NVML_CALLS(NAME)};

struct fault {
	int call, device;
	enum kind kind;
	long arg, from, count, seen;
	struct fault *next;
};

static struct fault *faults;

static const struct { const char *name; enum kind kind; } kinds[] = {
	{"errno", K_ERRNO}, {"short", K_SHORT}, {"zero", K_ZERO}, {"over", K_OVER}, {"stale", K_STALE}, {"half", K_HALF},
	{"shift", K_SHIFT}, {"neighbour", K_NEIGHBOUR}, {"late", K_LATE}, {"flip", K_FLIP}, {"hang", K_HANG},
	{"stuck", K_STUCK}, {"lost", K_LOST}, {"skip", K_SKIP}, {"liar", K_LIAR}, {"limit", K_LIMIT},
};

void settings_default(void) {
	core.set = (struct settings){.devices = 2, .async = 1, .delay_us = 60, .route = ROUTE_NVFS, .compat = 1,
		.file_version = 1190, .cuda_version = 13000, .ordering = 100, .flush = 1, .virt = 0, .virt_device = -1,
		.late_us = 2000, .bar1_mib = 1024, .memory = (size_t)1 << 30};
}

void faults_clear(void) {
	while (faults) {
		struct fault *f = faults;
		faults = f->next;
		free(f);
	}
}

/* Counts a call and returns the fault that fires in it. Needs the lock. A fault
 * of one device fires only where that device's context is current. */
struct hit fault_of(int call, int device) {
	struct hit h = {NO_FAULT, 0};
	core.calls[call]++;
	for (struct fault *f = faults; f; f = f->next) {
		if (f->call != call || f->kind == K_LIMIT || (f->device >= 0 && f->device != device)) continue;
		f->seen++;
		if (h.kind || f->seen < f->from || (f->count && f->seen >= f->from + f->count)) continue;
		h = (struct hit){f->kind, f->arg};
		core.fired[call]++;
		core_log("fault %s call %ld", call_names[call], f->seen);
	}
	return h;
}

/* The limit set on a call, or -1. Who refuses for it counts the firing. */
long limit_of(int call, int device) {
	for (struct fault *f = faults; f; f = f->next)
		if (f->call == call && f->kind == K_LIMIT && (f->device < 0 || f->device == device)) return f->arg;
	return -1;
}

/* ---- parsing ---- */

static char wrong[160];

static const char *bad(const char *item, const char *why) {
	snprintf(wrong, sizeof wrong, "%.100s: %s", item, why);
	return wrong;
}

static bool asynchronous(int call) {
	return call == CALL_cuMemcpyHtoDAsync_v2 || call == CALL_cuMemcpyDtoHAsync_v2 || call == CALL_cuMemcpyDtoDAsync_v2 ||
		call == CALL_cuMemsetD8Async || call == CALL_cuLaunchKernel;
}

/* Says whether the double knows how to do it: a fault that cannot fire must not
 * look as if it had been survived. */
static bool possible(int call, enum kind kind) {
	switch (kind) {
	case K_ERRNO: case K_SHORT: case K_ZERO: case K_OVER: case K_SHIFT: case K_NEIGHBOUR: case K_LATE:
		return call == CALL_cuFileRead;
	case K_STALE: case K_HALF: case K_FLIP:
		return call == CALL_cuFileRead || (asynchronous(call) && call != CALL_cuLaunchKernel);
	case K_STUCK:
		return asynchronous(call);
	case K_SKIP: case K_LIAR:
		return call == CALL_cuLaunchKernel;
	case K_LIMIT:
		return call == CALL_cuMemAlloc_v2 || call == CALL_cuMemHostRegister_v2 || call == CALL_cuFileBufRegister;
	case K_LOST:
		return call >= CALL_cuMemAlloc_v2 && call <= CALL_cuFileRead;
	case K_CODE: /* cuFileHandleDeregister returns nothing */
		return call != CALL_cuFileHandleDeregister;
	case K_HANG:
		return call <= CALL_cuFileRead;
	default:
		return true;
	}
}

/* Parses "kind[:arg][/device][@from[+count]]". */
static const char *parse_fault(const char *item, int call, char *value) {
	struct fault f = {.call = call, .device = -1, .from = 1};
	char *at = strchr(value, '@'), *slash = NULL, *colon, *end;
	if (at) {
		*at++ = 0;
		f.from = strtol(at, &end, 10);
		if (*end == '+') f.count = strtol(end + 1, &end, 10);
		if (*end || f.from < 1 || f.count < 0) return bad(item, "want @from or @from+count, from 1");
	}
	slash = strchr(value, '/');
	if (slash) {
		*slash++ = 0;
		f.device = (int)strtol(slash, &end, 10);
		if (*end || !*slash) return bad(item, "want /device");
	}
	colon = strchr(value, ':');
	if (colon) {
		*colon++ = 0;
		f.arg = strtol(colon, &end, 0);
		if (*end || !*colon) return bad(item, "want :number");
	}
	long code = strtol(value, &end, 10);
	if (*value && !*end && !colon) {
		f.kind = K_CODE;
		f.arg = code;
	}
	for (size_t i = 0; !f.kind && i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(value, kinds[i].name)) f.kind = kinds[i].kind;
	if (!f.kind) return bad(item, "unknown kind of fault");
	if (!possible(call, f.kind)) return bad(item, "the double cannot do this to that call");
	struct fault *keep = malloc(sizeof *keep), **last = &faults;
	*keep = f;
	while (*last) last = &(*last)->next;
	*last = keep;
	return NULL;
}

static const char *parse_setting(const char *item, const char *key, const char *value, bool *known) {
	struct { const char *name; int *to; long min, max; } numbers[] = {
		{"devices", &core.set.devices, 0, MAX_DEVICES}, {"async", &core.set.async, 0, 1}, {"delay", &core.set.delay_us, 0, 1000000},
		{"compat", &core.set.compat, 0, 1}, {"cufile", &core.set.file_version, 1000, 9999}, {"cuda", &core.set.cuda_version, 1000, 99999},
		{"ordering", &core.set.ordering, 0, 200}, {"flush", &core.set.flush, 0, 3}, {"late", &core.set.late_us, 0, 10000000},
		{"bar1", &core.set.bar1_mib, 0, 1 << 20},
	};
	char *end;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (strcmp(key, numbers[i].name)) continue;
		*known = true;
		long v = strtol(value, &end, 10);
		if (*end || !*value || v < numbers[i].min || v > numbers[i].max) return bad(item, "number out of range");
		*numbers[i].to = (int)v;
		return NULL;
	}
	if (!strcmp(key, "memory")) {
		*known = true;
		core.set.memory = strtoul(value, &end, 10);
		return *end || !*value ? bad(item, "want bytes") : NULL;
	}
	if (!strcmp(key, "virt")) { /* mode, or mode/device */
		*known = true;
		core.set.virt = (int)strtol(value, &end, 10);
		core.set.virt_device = *end == '/' ? (int)strtol(end + 1, &end, 10) : -1;
		return *end || !*value ? bad(item, "want mode or mode/device") : NULL;
	}
	if (!strcmp(key, "route")) {
		*known = true;
		if (!strcmp(value, "nvfs")) core.set.route = ROUTE_NVFS;
		else if (!strcmp(value, "p2p")) core.set.route = ROUTE_P2P;
		else if (!strcmp(value, "none")) core.set.route = ROUTE_NONE;
		else return bad(item, "want nvfs, p2p or none");
	}
	return NULL;
}

static const char *parse_item(const char *item) {
	char text[120];
	if (strlen(item) >= sizeof text) return bad(item, "too long");
	strcpy(text, item);
	char *value = strchr(text, '=');
	if (!value) return bad(item, "want name=value");
	*value++ = 0;
	bool known = false;
	const char *why = parse_setting(item, text, value, &known);
	if (known) return why;
	for (int i = 0; i < CALLS; i++)
		if (!strcmp(text, call_names[i])) return parse_fault(item, i, value);
	return bad(item, "unknown call or setting");
}

/* Adds what the text says to what is set. Returns NULL, or what is wrong. */
const char *faults_set(const char *spec) {
	char *copy = strdup(spec), *save = NULL;
	const char *why = NULL;
	for (char *item = strtok_r(copy, ", \n", &save); item && !why; item = strtok_r(NULL, ", \n", &save)) why = parse_item(item);
	free(copy);
	return why;
}
