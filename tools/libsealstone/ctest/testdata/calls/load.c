/* Completions, bounds and threads. */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

static sealstone_item bare(uint8_t *hash) {
    return (sealstone_item){.hash = hash, .hash_len = HASH};
}

void test_event_fd(const struct place *p) {
    struct ctx c;
    uint8_t hash[HASH] = {7};
    sealstone_item item = bare(hash);
    sealstone_completion done[8];
    sealstone_result r[8];
    size_t n, need;
    ctx_open(&c, p);
    CHECK(!readable(c.fd, 0));
    CHECK_STATUS(sealstone_drain(c.store, done, 8, r, 8, &n, &need), OK);
    CHECK(n == 0 && need == 0);
    for (int i = 0; i < 3; i++) CHECK_STATUS(sealstone_submit(c.store, c.ns, SEALSTONE_OP_EXISTS, &item, 1, NULL, NULL), OK);
    CHECK_STATUS(sealstone_wait_idle(c.store, 0), OK);
    CHECK(readable(c.fd, 0)); /* idle: all have completed */
    CHECK_STATUS(sealstone_drain(c.store, done, 8, NULL, 0, &n, &need), SEALSTONE_TOO_SMALL);
    CHECK(n == 0 && need == 1);
    CHECK_STATUS(sealstone_drain(c.store, done, 2, r, 8, &n, NULL), OK);
    CHECK(n == 2 && done[1].first_result == 1 && readable(c.fd, 0));
    eventfd_t count;
    CHECK(eventfd_read(c.fd, &count) == 0); /* the host may read it as well */
    CHECK_STATUS(sealstone_drain(c.store, done, 8, r, 1, &n, NULL), OK);
    CHECK(n == 1 && !readable(c.fd, 0));
    ctx_close(&c);
}

static void options_with(char *dst, size_t cap, const struct place *p, const char *more) {
    snprintf(dst, cap, "%.*s,%s}", (int)(strlen(p->options) - 1), p->options, more);
}

/* Who does not drain is shed, and nothing of what was shed comes. */
void test_shed(const struct place *p) {
    struct ctx c;
    char options[1024];
    options_with(options, sizeof options, p, "\"queue_operations\":5");
    struct place small = *p;
    small.options = options;
    uint8_t hash[HASH] = {8};
    sealstone_item item = bare(hash);
    sealstone_completion done[16];
    sealstone_result r[16];
    size_t n;
    uint64_t id = 77;
    ctx_open(&c, &small);
    for (int i = 0; i < 5; i++) CHECK_STATUS(sealstone_submit(c.store, c.ns, SEALSTONE_OP_EXISTS, &item, 1, NULL, &id), OK);
    uint64_t last = id;
    for (int i = 0; i < 100; i++) CHECK_STATUS(sealstone_submit(c.store, c.ns, SEALSTONE_OP_EXISTS, &item, 1, NULL, &id), SEALSTONE_SHED);
    CHECK(id == last);
    CHECK_STATUS(sealstone_wait_idle(c.store, 0), OK);
    CHECK_STATUS(sealstone_submit(c.store, c.ns, SEALSTONE_OP_EXISTS, &item, 1, NULL, &id), SEALSTONE_SHED);
    CHECK_STATUS(sealstone_drain(c.store, done, 16, r, 16, &n, NULL), OK);
    CHECK(n == 5);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &item, NULL), SEALSTONE_MISS);
    ctx_close(&c);
}

enum { THREADS = 4, EACH = 40 };
struct worker {
    struct ctx *c;
    uint32_t from;
    struct block b[EACH];
};

static void *put_all(void *arg) {
    struct worker *w = arg;
    for (uint32_t i = 0; i < EACH; i++) {
        block_init(&w->b[i], w->from + i);
        sealstone_submit_options o = {.struct_bytes = sizeof o, .user_data = w->from + i};
        CHECK_STATUS(sealstone_submit(w->c->store, w->c->ns, SEALSTONE_OP_PUT, &w->b[i].item, 1, &o, NULL), OK);
    }
    return NULL;
}

/* Several threads submit, one drains: each operation completes once. */
void test_threads(const struct place *p) {
    struct ctx c;
    static struct worker w[THREADS];
    pthread_t t[THREADS];
    uint8_t seen[THREADS * EACH] = {0};
    ctx_open(&c, p);
    for (uint32_t i = 0; i < THREADS; i++) {
        w[i].c = &c, w[i].from = 1000 + i * EACH;
        CHECK(pthread_create(&t[i], NULL, put_all, &w[i]) == 0);
    }
    for (size_t got = 0; got < THREADS * EACH;) {
        sealstone_completion done[7];
        sealstone_result r[7];
        size_t n;
        CHECK(readable(c.fd, 120000));
        CHECK_STATUS(sealstone_drain(c.store, done, 7, r, 7, &n, NULL), OK);
        for (size_t i = 0; i < n; i++) {
            CHECK_STATUS(done[i].status, OK);
            CHECK(seen[done[i].user_data - 1000]++ == 0);
        }
        got += n;
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(t[i], NULL) == 0);
    for (uint32_t i = 0; i < THREADS; i++)
        for (uint32_t k = 0; k < EACH; k++) {
            struct block dst;
            block_target(&dst, w[i].from + k);
            CHECK_STATUS(run_one(&c, SEALSTONE_OP_GET, &dst.item, NULL), OK);
            CHECK(block_is(&dst, w[i].from + k));
            block_free(&dst), block_free(&w[i].b[k]);
        }
    ctx_close(&c);
}

/* The server stops in its tracks. A million submits later memory and threads
 * are what they were, no submit has waited, and each that was accepted has
 * completed, exactly once. */
void test_stalled(const struct place *p) {
    struct ctx c;
    struct block b;
    uint8_t hash[HASH] = {9};
    sealstone_item items[2] = {bare(hash), bare(hash)};
    sealstone_submit_options o = {.struct_bytes = sizeof o, .timeout_ns = 20000000};
    sealstone_completion done[64];
    static sealstone_result r[256];
    long accepted = 0, drained = 0, shed = 0, rss = 0, threads = 0;
    size_t n;
    if (!p->server) return;
    ctx_open(&c, p);
    block_target(&b, 700);
    CHECK(kill(p->server, SIGSTOP) == 0);
    for (int i = 0; i < 1000000; i++) {
        int get = i % 50 == 0;
        sealstone_status st = sealstone_submit(c.store, c.ns, get ? SEALSTONE_OP_GET : SEALSTONE_OP_EXISTS,
                                               get ? &b.item : items, get ? 1 : 2, &o, NULL);
        CHECK(st == OK || st == SEALSTONE_SHED);
        if (st == OK) accepted++;
        else shed++;
        if (i % 1000 == 0) {
            CHECK_STATUS(sealstone_drain(c.store, done, 64, r, 256, &n, NULL), OK);
            drained += (long)n;
            for (size_t k = 0; k < n; k++) CHECK(done[k].status != OK);
        }
        if (i == 200000) rss = status_field("VmRSS:"), threads = status_field("Threads:");
    }
    long rss_now = status_field("VmRSS:"), threads_now = status_field("Threads:");
    if (rss_now > rss + 64 * 1024 || threads_now > threads + 16) {
        fprintf(stderr, "%ld KiB and %ld threads, were %ld and %ld\n", rss_now, threads_now, rss, threads);
        exit(1);
    }
    CHECK_STATUS(sealstone_wait_idle(c.store, 60000000000), OK);
    for (n = 1; n > 0; drained += (long)n) CHECK_STATUS(sealstone_drain(c.store, done, 64, r, 256, &n, NULL), OK);
    CHECK(drained == accepted && shed > 0);
    CHECK(block_is_poison(&b));
    CHECK(kill(p->server, SIGCONT) == 0);
    /* The first call after that is answered. */
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, items, NULL), SEALSTONE_MISS);
    block_free(&b);
    ctx_close(&c);
}
