//go:build cgo && linux

/* cuFile: one C function an operation. */
#include "shim.h"

#include <errno.h>
#include <string.h>

/* Calls a function that needs no context. */
#define PLAIN(name, ...) \
	if (!f->name) return ss_missing(#name); \
	ss_result r = {.call = #name}; \
	ss_cufile_error e = f->name(__VA_ARGS__); \
	r.code = e.err; \
	r.cu_err = e.cu_err

/* Calls a function within ctx. An error of the context keeps its own call; the
 * codes of the two libraries are told apart by it. */
#define WITHIN(name, ...) \
	if (!f->name) return ss_missing(#name); \
	ss_result r = {0}; \
	if (ss_enter(t, ctx, &r)) return r; \
	ss_cufile_error e = f->name(__VA_ARGS__); \
	r.code = e.err; \
	r.cu_err = e.cu_err; \
	r.call = #name; \
	ss_leave(t, ctx, &r)

ss_result ss_file_open(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx) { WITHIN(cuFileDriverOpen); return r; }

/* The header maps cuFileDriverClose to _v2 since CUDA 11.8. */
ss_result ss_file_close(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx) {
	if (f->cuFileDriverClose_v2) {
		WITHIN(cuFileDriverClose_v2);
		return r;
	}
	WITHIN(cuFileDriverClose);
	return r;
}

ss_result ss_file_version(const ss_cufile *f) { int v = 0; PLAIN(cuFileGetVersion, &v); r.value = v; return r; }
ss_result ss_file_properties(const ss_cufile *f, void *props) { PLAIN(cuFileDriverGetProperties, props); return r; }
ss_result ss_file_parameter(const ss_cufile *f, int which) { bool v = false; PLAIN(cuFileGetParameterBool, which, &v); r.value = v; return r; }
ss_result ss_file_set_parameter(const ss_cufile *f, int which, bool value) { PLAIN(cuFileSetParameterBool, which, value); return r; }
ss_result ss_file_set_string(const ss_cufile *f, int which, const char *value) { PLAIN(cuFileSetParameterString, which, value); return r; }
ss_result ss_file_stats_level(const ss_cufile *f, int level) { PLAIN(cuFileSetStatsLevel, level); return r; }
ss_result ss_file_stats_start(const ss_cufile *f) { PLAIN(cuFileStatsStart); return r; }
ss_result ss_file_stats_stop(const ss_cufile *f) { PLAIN(cuFileStatsStop); return r; }
ss_result ss_file_stats_reset(const ss_cufile *f) { PLAIN(cuFileStatsReset); return r; }
ss_result ss_file_stats(const ss_cufile *f, void *buf) { PLAIN(cuFileGetStatsL3, buf); return r; }

ss_result ss_file_register(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, int fd) {
	enum { OPAQUE_FD = 1 };
	ss_cufile_descr d;
	memset(&d, 0, sizeof d);
	d.type = OPAQUE_FD;
	d.handle.fd = fd;
	void *h = NULL;
	WITHIN(cuFileHandleRegister, &h, &d);
	r.value = (uintptr_t)h;
	return r;
}

ss_result ss_file_deregister(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, uintptr_t h) {
	if (!f->cuFileHandleDeregister) return ss_missing("cuFileHandleDeregister");
	ss_result r = {0};
	if (ss_enter(t, ctx, &r)) return r;
	f->cuFileHandleDeregister((void *)h);
	r.call = "cuFileHandleDeregister";
	ss_leave(t, ctx, &r);
	return r;
}

ss_result ss_buf_register(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, ss_devptr p, size_t n) {
	WITHIN(cuFileBufRegister, (const void *)(uintptr_t)p, n, 0);
	return r;
}

ss_result ss_buf_deregister(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, ss_devptr p) {
	WITHIN(cuFileBufDeregister, (const void *)(uintptr_t)p);
	return r;
}

/* errno is cleared before and saved right after: popping the context may change
 * it, and so does Go. */
ss_read_result ss_file_read(const ss_cufile *f, const ss_cuda *t, uintptr_t ctx, uintptr_t h, ss_devptr base,
		size_t n, off_t file_offset, off_t buf_offset) {
	ss_read_result out = {0};
	if (!f->cuFileRead) {
		out.code = SS_MISSING;
		out.call = "cuFileRead";
		return out;
	}
	ss_result r = {0};
	if (ss_enter(t, ctx, &r)) {
		out.code = r.code;
		out.call = r.call;
		return out;
	}
	errno = 0;
	out.n = f->cuFileRead((void *)h, (void *)(uintptr_t)base, n, file_offset, buf_offset);
	out.saved_errno = errno;
	ss_leave(t, ctx, &r);
	out.code = r.code;
	out.call = r.call;
	return out;
}
