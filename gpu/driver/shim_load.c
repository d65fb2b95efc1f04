//go:build cgo && linux

/* Loading: dlopen, then every symbol once. Nothing is ever unloaded: both
 * libraries keep threads, and libcufile crashes at exit when unloaded open. */
#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static ss_loaded failed(const char *why) {
	ss_loaded l = {NULL, strdup(why ? why : "dlopen failed and gave no reason")};
	return l;
}

/* RTLD_NOW: a library with unresolved symbols fails here, not in the middle of a
 * call. RTLD_LOCAL: its names do not leak into the host process. */
#define LOAD(type, symbols) \
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL); \
	if (!lib) return failed(dlerror()); \
	type *t = calloc(1, sizeof *t); \
	if (!t) return failed("out of memory"); \
	symbols(RESOLVE) \
	ss_loaded l = {t, NULL}; \
	return l;
#define RESOLVE(name, ret, args) *(void **)&t->name = dlsym(lib, #name);

ss_loaded ss_cuda_load(const char *path) { LOAD(ss_cuda, SS_CUDA_SYMBOLS) }
ss_loaded ss_cufile_load(const char *path) { LOAD(ss_cufile, SS_CUFILE_SYMBOLS) }

#define NAME(name, ret, args) if (i-- == 0) { *there = t->name != NULL; return #name; }

const char *ss_cuda_symbol(const ss_cuda *t, int i, int *there) {
	SS_CUDA_SYMBOLS(NAME)
	return NULL;
}

const char *ss_cufile_symbol(const ss_cufile *t, int i, int *there) {
	SS_CUFILE_SYMBOLS(NAME)
	return NULL;
}
