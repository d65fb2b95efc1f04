/* What the C tests share: checks, a store with a namespace, blocks with known
 * bytes, and an operation that is submitted and waited for. */
#ifndef CHECK_H
#define CHECK_H

#include "sealstone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A check that fails says where and ends the program. */
#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

#define CHECK_STATUS(call, want)                                                                          \
    do {                                                                                                  \
        sealstone_status got_ = (call), want_ = (want);                                                   \
        if (got_ != want_) {                                                                              \
            fprintf(stderr, "%s:%d: %s is %s, want %s\n", __FILE__, __LINE__, #call,                      \
                    sealstone_status_name(got_), sealstone_status_name(want_));                           \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

#define OK SEALSTONE_OK

enum { HASH = 32, K_BYTES = 5000, V_BYTES = 150000, GUARD = 64 };

/* Where the tests work: the options that open the store, its directory on disk,
 * and the server's process, or 0. */
struct place {
    const char *options, *dir;
    int server;
};

struct ctx {
    const struct place *place;
    sealstone_store store;
    sealstone_namespace ns;
    int fd;
};

extern const char layout_json[];

void ctx_open(struct ctx *c, const struct place *p);
void ctx_close(struct ctx *c);

/* A block as it is put, or a destination between guards. */
struct block {
    uint8_t hash[HASH];
    uint8_t *k, *v; /* within memory; each has GUARD bytes around it */
    uint8_t *memory;
    sealstone_span spans[3];
    sealstone_part parts[2];
    sealstone_item item;
};

void block_init(struct block *b, uint32_t id);   /* with the bytes of block id */
void block_target(struct block *b, uint32_t id); /* poisoned, to be read into */
void block_free(struct block *b);
int block_is(const struct block *b, uint32_t id); /* its bytes, the guards whole */
int block_is_poison(const struct block *b);       /* nothing was written */

/* Submits, waits by poll, drains: exactly one completion comes. */
sealstone_completion run(struct ctx *c, uint32_t op, const sealstone_item *items, size_t n,
                         const sealstone_submit_options *o, sealstone_result *results);
sealstone_status run_one(struct ctx *c, uint32_t op, const sealstone_item *item, sealstone_result *result);
int readable(int fd, int ms);

void flip_on_disk(const char *dir, const uint8_t *what, size_t len);
long status_field(const char *name); /* of /proc/self/status */

/* The tests. */
void test_library(const struct place *p);
void test_arguments(const struct place *p);
void test_handles(const struct place *p);
void test_namespaces(const struct place *p);
void test_reports(const struct place *p);
void test_blocks(const struct place *p);
void test_ranges_and_seals(const struct place *p);
void test_lookups(const struct place *p);
void test_corrupt(const struct place *p);
void test_region(const struct place *p);
void test_epoch(const struct place *p);
void test_event_fd(const struct place *p);
void test_shed(const struct place *p);
void test_threads(const struct place *p);
void test_stalled(const struct place *p);

#endif
