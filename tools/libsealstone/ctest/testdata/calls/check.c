#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

const char layout_json[] =
    "{\"model\":\"ctest\",\"weights_digest\":\"none\",\"dtype\":\"bytes\",\"kv_layout\":\"NHD\","
    "\"tokens_per_block\":16,\"layers\":2,\"kv_heads\":2,\"head_size\":8,"
    "\"planes\":[{\"name\":\"k\"},{\"name\":\"v\"}],\"tp\":{\"agnostic\":true},\"pp\":{\"agnostic\":true},"
    "\"cp\":{\"agnostic\":true},\"rope\":\"none\",\"attention\":\"gqa\",\"hybrid_kv_manager\":\"off\","
    "\"engine\":\"ctest\",\"layout_version\":\"1\","
    "\"hash\":{\"algorithm\":\"sha256\",\"width_bytes\":32,\"root\":\"none\"}}";

void ctx_open(struct ctx *c, const struct place *p) {
    char text[4096];
    c->place = p;
    if (sealstone_open(p->options, &c->store, text, sizeof text) != OK) {
        fprintf(stderr, "open %s: %s\n", p->options, text);
        exit(1);
    }
    sealstone_status st = sealstone_open_namespace(c->store, layout_json, NULL, NULL, &c->ns, text, sizeof text, NULL);
    if (st != OK) {
        fprintf(stderr, "open namespace: %s %s\n", sealstone_status_name(st), text);
        exit(1);
    }
    CHECK_STATUS(sealstone_event_fd(c->store, &c->fd), OK);
}

void ctx_close(struct ctx *c) {
    char text[512];
    sealstone_status st = sealstone_close(c->store, 0, text, sizeof text);
    if (st != OK) fprintf(stderr, "close: %s\n", text);
    CHECK_STATUS(st, OK);
}

/* Any bytes will do, if no two blocks have equal ones. */
static void fill(uint8_t *p, size_t n, uint32_t seed) {
    uint64_t x = 0x9e3779b97f4a7c15u * (seed + 1u);
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        p[i] = (uint8_t)x;
    }
}

static void block_make(struct block *b, uint32_t id) {
    memset(b, 0, sizeof *b);
    fill(b->hash, HASH, id + 1000000u);
    b->memory = malloc(K_BYTES + V_BYTES + 3 * GUARD);
    CHECK(b->memory != NULL);
    memset(b->memory, 0xa5, K_BYTES + V_BYTES + 3 * GUARD);
    b->k = b->memory + GUARD;
    b->v = b->k + K_BYTES + GUARD;
    b->spans[0] = (sealstone_span){b->k, K_BYTES};
    b->spans[1] = (sealstone_span){b->v, 70001}; /* v in two spans, cut at an odd place */
    b->spans[2] = (sealstone_span){b->v + 70001, V_BYTES - 70001};
    b->parts[0].plane = "k", b->parts[0].spans = &b->spans[0], b->parts[0].n_spans = 1;
    b->parts[1].plane = "v", b->parts[1].spans = &b->spans[1], b->parts[1].n_spans = 2;
    b->item.hash = b->hash, b->item.hash_len = HASH;
    b->item.parts = b->parts, b->item.n_parts = 2;
}

void block_init(struct block *b, uint32_t id) {
    block_make(b, id);
    fill(b->k, K_BYTES, 2 * id);
    fill(b->v, V_BYTES, 2 * id + 1);
}

void block_target(struct block *b, uint32_t id) { block_make(b, id); }

void block_free(struct block *b) { free(b->memory); }

static int all(const uint8_t *p, size_t n, uint8_t v) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != v) return 0;
    return 1;
}

int block_is(const struct block *b, uint32_t id) {
    struct block want;
    block_init(&want, id);
    int same = memcmp(b->memory, want.memory, K_BYTES + V_BYTES + 3 * GUARD) == 0;
    block_free(&want);
    return same;
}

int block_is_poison(const struct block *b) { return all(b->memory, K_BYTES + V_BYTES + 3 * GUARD, 0xa5); }

int readable(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = poll(&p, 1, ms);
    CHECK(n >= 0);
    return n == 1 && (p.revents & POLLIN);
}

sealstone_completion run(struct ctx *c, uint32_t op, const sealstone_item *items, size_t n,
                         const sealstone_submit_options *o, sealstone_result *results) {
    uint64_t id = 0;
    CHECK_STATUS(sealstone_submit(c->store, c->ns, op, items, n, o, &id), OK);
    CHECK(readable(c->fd, 120000)); /* only there to end a hang */
    sealstone_completion done[2];
    size_t got = 0;
    CHECK_STATUS(sealstone_drain(c->store, done, 2, results, n, &got, NULL), OK);
    CHECK(got == 1 && done[0].op_id == id && done[0].op == op && done[0].n_results == n && done[0].first_result == 0);
    return done[0];
}

sealstone_status run_one(struct ctx *c, uint32_t op, const sealstone_item *item, sealstone_result *result) {
    sealstone_result unused;
    if (result == NULL) result = &unused;
    sealstone_completion done = run(c, op, item, 1, NULL, result);
    CHECK(done.status == result->status && done.n_ok == (result->status == OK));
    return result->status;
}

static const uint8_t *wanted;
static size_t wanted_len;
static int flipped;

static int flip_in(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)where;
    size_t n = strlen(path);
    if (type != FTW_F || n < 4 || strcmp(path + n - 4, ".seg") != 0 || flipped) return 0;
    /* The store goes on meanwhile: a segment may go, and a spare one's size change. */
    int fd = open(path, O_RDWR);
    if (fd < 0 && errno == ENOENT) return 0;
    CHECK(fd >= 0);
    size_t room = (size_t)st->st_size, have = 0;
    uint8_t *p = malloc(room + 1);
    CHECK(p != NULL);
    while (have < room) {
        ssize_t got = pread(fd, p + have, room - have, (off_t)have);
        CHECK(got >= 0);
        if (got == 0) break;
        have += (size_t)got;
    }
    uint8_t *at = memmem(p, have, wanted, wanted_len);
    if (at != NULL) {
        uint8_t v = at[0] ^ 1;
        CHECK(pwrite(fd, &v, 1, at - p) == 1 && fsync(fd) == 0);
        flipped = 1;
    }
    free(p);
    close(fd);
    return 0;
}

/* Changes one bit of the first place in a segment that holds these bytes. */
void flip_on_disk(const char *dir, const uint8_t *what, size_t len) {
    wanted = what, wanted_len = len, flipped = 0;
    CHECK(nftw(dir, flip_in, 16, FTW_PHYS) == 0 && flipped);
}

long status_field(const char *name) {
    char line[256];
    long v = -1;
    FILE *f = fopen("/proc/self/status", "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0) v = strtol(line + strlen(name), NULL, 10);
    fclose(f);
    CHECK(v >= 0);
    return v;
}
