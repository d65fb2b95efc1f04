/* State and services that the three doubles share. It lives in the double of
 * libcuda; the others reach it through fake_core(). One lock guards all of it:
 * device memory is touched under it only. */
#ifndef FAKE_CORE_H
#define FAKE_CORE_H

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

typedef unsigned long long devptr;

/* Device addresses are host addresses plus this, which no CPU can use: Go code
 * that looks at device memory itself ends with a fault and not with luck. */
#define BIAS 0x0100000000000000ULL

#define MAX_DEVICES 16

/* What a fault does to the call that it fires in. */
enum kind {
	NO_FAULT,
	K_CODE,      /* return arg */
	K_ERRNO,     /* cuFileRead: return -1 with errno = arg */
	K_SHORT,     /* cuFileRead: read half and say so */
	K_ZERO,      /* cuFileRead: read nothing and say so */
	K_OVER,      /* cuFileRead: return more than asked for */
	K_STALE,     /* success, nothing written */
	K_HALF,      /* success, only the first half written */
	K_SHIFT,     /* cuFileRead: success, bytes from 4 KiB further on */
	K_NEIGHBOUR, /* cuFileRead: success, bytes land beside the destination */
	K_LATE,      /* cuFileRead: success, bytes land after the return */
	K_FLIP,      /* success, one bit wrong */
	K_HANG,      /* blocks until released, then goes on */
	K_STUCK,     /* asynchronous work: accepted, and not done until released */
	K_LOST,      /* the context is dead from here on, with code arg */
	K_SKIP,      /* cuLaunchKernel: success, does not run */
	K_LIAR,      /* cuLaunchKernel: success, every piece matches */
	K_LIMIT,     /* refuse what makes the sum of bytes exceed arg */
};

struct hit { enum kind kind; long arg; };

struct context {
	int device;
	int references;
	int lost;            /* the code of every call from now on, or 0 */
	struct stream *legacy; /* stream 0 */
};

struct allocation {
	struct context *ctx;
	char *mem; /* host address */
	size_t n;
	size_t registered; /* bytes registered with cuFile */
	struct allocation *next;
};

struct pinned {
	char *mem;
	size_t n;
	struct context *ctx;
	struct pinned *next;
};

struct settings {
	int devices, async, delay_us, route, compat, file_version, cuda_version, ordering, flush, virt, late_us, bar1_mib;
	int virt_device; /* -1: all */
	size_t memory; /* bytes a device */
};

enum { ROUTE_NONE, ROUTE_NVFS, ROUTE_P2P };

struct core {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct settings set;
	struct context contexts[MAX_DEVICES];
	struct allocation *allocations;
	struct pinned *pinned;
	unsigned long released; /* generation of releases of what hangs */
	int hanging, late;      /* calls that hang, writes still to come */
	long calls[CALLS], fired[CALLS];
	int initialised;

	/* Services, for the doubles in other libraries. All but lock_core and
	 * fake_init need the lock. */
	struct hit (*fault)(int call, int device);
	long (*limit)(int call, int device);
	void (*violation)(const char *format, ...);
	struct context *(*current)(void);
	struct allocation *(*find)(devptr p, size_t n);
	struct allocation *(*at)(devptr base);
	bool (*busy)(const char *mem, size_t n);
	void (*touch)(const char *who, const void *mem, size_t n);
	void (*wait_release)(void);
	void (*lose)(struct context *ctx, int code);
	void (*uuid)(int device, unsigned char *out);
	void (*bus)(int device, unsigned *number);
	void (*leaks)(void (*add)(const char *format, ...)); /* set by cuFile */
	void (*reset_file)(void);                             /* set by cuFile */
	void (*reading)(const char *mem, size_t n, int delta);
};

/* The core of the double that stands beside this library. */
extern struct core *fake_core(void);

#ifdef FAKE_CUDA
extern struct core core;

void core_lock(void);
void core_unlock(void);
void core_violation(const char *format, ...);
void core_log(const char *format, ...);
void core_touch(const char *who, const void *mem, size_t n);
void core_wait_release(void);
bool core_being_read(const char *mem, size_t n);
void core_start(void); /* defaults and the environment, once */

/* faults.c */
struct hit fault_of(int call, int device);
long limit_of(int call, int device);
const char *faults_set(const char *spec); /* NULL, or what is wrong with it */
void faults_clear(void);
void settings_default(void);
extern const char *const call_names[CALLS];

/* memory.c */
char *host_of(devptr p);
struct allocation *memory_find(devptr p, size_t n);
struct allocation *memory_at(devptr base);
bool memory_pinned(const void *p, size_t n);
bool memory_mapped(const void *p, size_t n);
void memory_free_all(struct context *ctx);
void memory_leaks(void (*add)(const char *format, ...));

/* context.c */
struct context *context_current(void);
void context_lose(struct context *ctx, int code);
bool code_sticky(int code);
void context_leaks(void (*add)(const char *format, ...));
/* Begins a call that needs a context: takes the lock, counts the call, lets its
 * fault happen. Returns 0 with the lock held, or the code with it free. */
int call_begin(int call, struct context **ctx, struct hit *h);
/* The same for a call that needs none. */
int call_plain(int call, struct hit *h);

/* stream.c */
enum work { W_NOTHING, W_H2D, W_D2H, W_D2D, W_MEMSET, W_MARK, W_WAIT, W_KERNEL };
struct job { unsigned char bytes[64]; int entry; unsigned long long threads; };
struct op {
	enum work work;
	struct hit hit;
	char *dst, *src; /* host addresses */
	size_t n;
	unsigned char value;
	uint64_t snapshot; /* of the host memory, when it was queued */
	struct stream *other; /* W_WAIT */
	uint64_t other_seq;
	struct job job;
	unsigned long release; /* generation that frees it, K_STUCK */
	struct op *next;
};
struct stream {
	struct context *ctx;
	uint64_t submitted, completed;
	struct op *head, *tail;
	bool destroyed;
	struct stream *next;
};
void stream_put(struct stream *s, struct op *op);
struct stream *stream_of(struct context *ctx, void *handle);
void stream_drop(struct context *ctx);
bool stream_uses(const char *mem, size_t n);
void stream_cancel(const char *mem, size_t n);
void stream_races(struct stream *s, struct op *mine, const char *who);
bool stream_idle(void);
void stream_leaks(void (*add)(const char *format, ...));
void stream_close(void);

/* copy.c, kernel.c */
void op_run(struct stream *s, struct op *op);
uint64_t snapshot_of(const void *p, size_t n);
void kernel_run(struct stream *s, struct op *op);
void kernel_leaks(void (*add)(const char *format, ...));
#endif

#endif
