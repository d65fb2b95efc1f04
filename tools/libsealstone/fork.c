//go:build cgo && linux

// A child of fork has the memory of its parent and only the thread that forked:
// the Go runtime in it is dead, and whoever enters it hangs. So the exported
// functions ask seal_forked first. The child also shares the parent's open
// files, and with them the lock of a store's directory (flock belongs to the
// open file, not to the process): as long as the child lives, the directory
// stays locked though the parent closed it. So the child closes its copies.

#define _GNU_SOURCE
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

// Set by the handler of fork(), which a bare clone() or _Fork() does not call.
static atomic_int in_child;

// A page that the kernel zeroes in every child that does not share memory with
// its parent, or NULL where the kernel (before 4.14) does not.
static volatile int *mark;

// More than the locks of all stores that may be open: three each.
#define LOCKS_MAX 256

// A slot is free with fd 0, being written with -1, else it holds fd + 1. The
// file's identity tells whether the number is still that file.
struct lock_slot {
    atomic_int fd;
    dev_t dev;
    ino_t ino;
};
static struct lock_slot locks[LOCKS_MAX];

int seal_forked(void) {
    return atomic_load_explicit(&in_child, memory_order_relaxed) != 0 || (mark != NULL && *mark == 0);
}

void seal_lock_taken(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0) return;
    for (size_t i = 0; i < LOCKS_MAX; i++) {
        int empty = 0;
        if (!atomic_compare_exchange_strong(&locks[i].fd, &empty, -1)) continue;
        locks[i].dev = st.st_dev;
        locks[i].ino = st.st_ino;
        atomic_store(&locks[i].fd, fd + 1);
        return;
    }
}

void seal_lock_given(int fd) {
    for (size_t i = 0; i < LOCKS_MAX; i++) {
        int held = fd + 1;
        if (atomic_compare_exchange_strong(&locks[i].fd, &held, 0)) return;
    }
}

// forget_locks runs in the child and calls async-signal-safe functions only:
// another thread of the parent may have held any mutex when it forked.
static void forget_locks(void) {
    atomic_store(&in_child, 1);
    for (size_t i = 0; i < LOCKS_MAX; i++) {
        int fd = atomic_load(&locks[i].fd) - 1;
        struct stat st;
        // Closed by the parent before it forked, the number may be another file's.
        if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != locks[i].dev || st.st_ino != locks[i].ino) continue;
        (void)close(fd);
        atomic_store(&locks[i].fd, 0);
    }
}

__attribute__((constructor)) static void watch_forks(void) {
    long page = sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
        if (madvise(p, (size_t)page, MADV_WIPEONFORK) == 0) {
            mark = p;
            *mark = 1;
        } else {
            (void)munmap(p, (size_t)page);
        }
    }
    (void)pthread_atfork(NULL, NULL, forget_locks);
}
