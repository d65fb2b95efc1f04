/* What is put is what is got, and nothing else is touched. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

/* Block numbers of the tests do not overlap: a server keeps its blocks. */

void test_blocks(const struct place *p) {
    struct ctx c;
    enum { N = 12 };
    struct block b[N], t[N + 1];
    sealstone_item items[N + 1];
    sealstone_result r[N + 1];
    ctx_open(&c, p);
    for (uint32_t i = 0; i < N; i++) {
        block_init(&b[i], 100 + i);
        if (i > 0) b[i].item.parent = b[i - 1].hash, b[i].item.parent_len = HASH;
        items[i] = b[i].item;
    }
    sealstone_submit_options o = {.struct_bytes = sizeof o, .user_data = 4711, .flags = SEALSTONE_DURABLE};
    sealstone_completion done = run(&c, SEALSTONE_OP_PUT, items, N, &o, r);
    CHECK(done.status == OK && done.n_ok == N && done.user_data == 4711);
    for (int i = 0; i < N; i++) CHECK(r[i].status == OK && (r[i].flags & SEALSTONE_RESULT_DURABLE) && r[i].bytes >= K_BYTES + V_BYTES);
    /* Again, and once with other bytes: the first put wins. */
    b[3].k[7] ^= 1;
    run(&c, SEALSTONE_OP_PUT, items, N, NULL, r);
    for (int i = 0; i < N; i++) {
        CHECK(r[i].status == OK && (r[i].flags & SEALSTONE_RESULT_EXISTED));
        CHECK(!!(r[i].flags & SEALSTONE_RESULT_DIFFERS) == (i == 3));
    }
    /* Backwards, and one in the middle that is not there. */
    for (uint32_t i = 0; i <= N; i++) {
        block_target(&t[i], i == 5 ? 99 : 100 + (i < 5 ? N - 1 - i : N - i));
        items[i] = t[i].item;
    }
    done = run(&c, SEALSTONE_OP_GET, items, N + 1, NULL, r);
    CHECK(done.status == SEALSTONE_MISS && done.n_ok == N);
    for (uint32_t i = 0; i <= N; i++) {
        if (i == 5) {
            CHECK(r[i].status == SEALSTONE_MISS && r[i].bytes == 0 && block_is_poison(&t[i]));
            continue;
        }
        CHECK(r[i].status == OK && r[i].bytes == K_BYTES + V_BYTES && r[i].verified_bytes >= r[i].bytes);
        CHECK(block_is(&t[i], 100 + (i < 5 ? N - 1 - i : N - i)));
    }
    sealstone_item bare = {.hash = b[0].hash, .hash_len = HASH}, absent = {.hash = t[5].hash, .hash_len = HASH};
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &bare, NULL), OK);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_TOUCH, &bare, NULL), OK);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &absent, NULL), SEALSTONE_MISS);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_DROP, &bare, NULL), OK);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_DROP, &bare, NULL), SEALSTONE_MISS);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &bare, NULL), SEALSTONE_MISS);
    for (int i = 0; i < N; i++) block_free(&b[i]);
    for (int i = 0; i <= N; i++) block_free(&t[i]);
    ctx_close(&c);
}

void test_ranges_and_seals(const struct place *p) {
    struct ctx c;
    struct block b, t;
    sealstone_result r;
    uint8_t seal[4096], small[4] = {0}, range[1000];
    ctx_open(&c, p);
    block_init(&b, 200);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &b.item, NULL), OK);
    block_target(&t, 200);
    t.item.seal = seal, t.item.seal_len = sizeof seal;
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_GET, &t.item, &r), OK);
    CHECK(r.seal_len > 40 && r.seal_len <= sizeof seal && seal[0] == 1 && block_is(&t, 200));
    uint32_t seal_len = r.seal_len;
    t.item.seal = small, t.item.seal_len = sizeof small;
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_GET, &t.item, &r), OK);
    CHECK(r.seal_len == seal_len && small[0] == 0);
    /* The seal vouches for the bytes at the next hop. */
    sealstone_item next = b.item, wrong = b.item;
    uint8_t h1[HASH] = {1}, h2[HASH] = {2};
    next.hash = h1, wrong.hash = h2;
    next.seal = wrong.seal = seal, next.seal_len = wrong.seal_len = seal_len;
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &next, NULL), OK);
    b.v[70000] ^= 1;
    sealstone_status st = run_one(&c, SEALSTONE_OP_PUT, &wrong, NULL);
    CHECK(st == SEALSTONE_CORRUPT || st == SEALSTONE_LENGTH_MISMATCH);
    wrong.parts = NULL, wrong.n_parts = 0, wrong.seal = NULL, wrong.seal_len = 0;
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &wrong, NULL), SEALSTONE_MISS);
    b.v[70000] ^= 1;
    /* A range of one plane, over a chunk's edge. */
    sealstone_span span = {range, sizeof range};
    sealstone_part part = {.plane = "v", .spans = &span, .n_spans = 1, .offset = 65536 - 500, .length = sizeof range};
    sealstone_item item = {.hash = b.hash, .hash_len = HASH, .parts = &part, .n_parts = 1};
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_GET, &item, &r), OK);
    CHECK(r.bytes == sizeof range && memcmp(range, b.v + 65536 - 500, sizeof range) == 0);
    memset(range, 0xa5, sizeof range);
    part.offset = 0, part.length = 0; /* the whole plane does not fit */
    CHECK(run_one(&c, SEALSTONE_OP_GET, &item, &r) != OK);
    for (size_t i = 0; i < sizeof range; i++) CHECK(range[i] == 0xa5);
    block_free(&b), block_free(&t);
    ctx_close(&c);
}

void test_lookups(const struct place *p) {
    struct ctx c;
    enum { N = 6 };
    struct block b[N];
    uint8_t flat[N * HASH], st[N];
    size_t blocks;
    sealstone_lease lease;
    char text[256];
    ctx_open(&c, p);
    for (uint32_t i = 0; i < N; i++) {
        block_init(&b[i], 300 + i);
        memcpy(flat + i * HASH, b[i].hash, HASH);
        if (i != 4) CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &b[i].item, NULL), OK);
    }
    CHECK_STATUS(sealstone_lookup_now(c.ns, flat, HASH, N, st), OK);
    for (int i = 0; i < N; i++) {
        if (p->server) CHECK(st[i] == SEALSTONE_TIMEOUT);
        else CHECK(i == 4 ? st[i] == SEALSTONE_MISS || st[i] == SEALSTONE_TIMEOUT : st[i] == OK);
    }
    CHECK_STATUS(sealstone_lookup_now(c.ns, NULL, HASH, 0, NULL), OK);
    CHECK_STATUS(sealstone_match(c.ns, flat, HASH, N, 0, &blocks, &lease, text, sizeof text), OK);
    CHECK(blocks == 4 && lease != 0);
    CHECK_STATUS(sealstone_renew(lease), OK);
    CHECK_STATUS(sealstone_release(lease), OK);
    CHECK_STATUS(sealstone_release(lease), SEALSTONE_BAD_HANDLE);
    CHECK_STATUS(sealstone_renew(lease), SEALSTONE_BAD_HANDLE);
    CHECK_STATUS(sealstone_match(c.ns, flat + 4 * HASH, HASH, 2, 0, &blocks, &lease, text, sizeof text), OK);
    CHECK(blocks == 0 && lease == 0);
    for (int i = 0; i < N; i++) block_free(&b[i]);
    ctx_close(&c);
}

/* A byte changes on disk: that block and no other is Corrupt, its destination is
 * as it was, and the reason says where it lies. */
void test_corrupt(const struct place *p) {
    struct ctx c;
    enum { N = 5 };
    struct block b[N], t[N];
    sealstone_item items[N];
    sealstone_result r[N];
    char why[512];
    ctx_open(&c, p);
    sealstone_submit_options o = {.struct_bytes = sizeof o, .flags = SEALSTONE_DURABLE};
    for (uint32_t i = 0; i < N; i++) {
        block_init(&b[i], 400 + i), block_target(&t[i], 400 + i);
        items[i] = b[i].item;
    }
    run(&c, SEALSTONE_OP_PUT, items, N, &o, r);
    flip_on_disk(p->dir, b[2].v + 100, 64);
    for (int i = 0; i < N; i++) items[i] = t[i].item;
    sealstone_completion done = run(&c, SEALSTONE_OP_GET, items, N, NULL, r);
    CHECK(done.status == SEALSTONE_CORRUPT && done.n_ok == N - 1);
    for (uint32_t i = 0; i < N; i++) {
        CHECK(r[i].status == (i == 2 ? SEALSTONE_CORRUPT : OK));
        CHECK(i == 2 ? block_is_poison(&t[i]) : block_is(&t[i], 400 + i));
    }
    CHECK_STATUS(sealstone_reason(c.store, done.op_id, 2, why, sizeof why), OK);
    CHECK(strlen(why) > 10 && (p->server || strstr(why, ".seg")));
    CHECK_STATUS(sealstone_reason(c.store, done.op_id, 1, why, sizeof why), SEALSTONE_MISS);
    for (int i = 0; i < N; i++) block_free(&b[i]), block_free(&t[i]);
    ctx_close(&c);
}

/* Gets straight into memory that is known: plane after plane, page aligned. */
void test_region(const struct place *p) {
    struct ctx c;
    struct block b;
    sealstone_region region, twice;
    char text[256];
    const size_t len = 1 << 20;
    ctx_open(&c, p);
    int fd = memfd_create("ctest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
    uint8_t *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(m != MAP_FAILED);
    sealstone_status st = sealstone_register_region(c.store, m, len, p->server ? fd : -1, &region, text, sizeof text);
    if (st != OK) fprintf(stderr, "register: %s\n", text);
    CHECK_STATUS(st, OK);
    CHECK(sealstone_register_region(c.store, m, len, fd, &twice, text, sizeof text) != OK || p->server);
    block_init(&b, 500);
    memcpy(m, b.k, K_BYTES), memcpy(m + 8192, b.v, V_BYTES); /* put from the region */
    sealstone_span k = {m, K_BYTES}, v = {m + 8192, V_BYTES};
    sealstone_part parts[2] = {{.plane = "k", .spans = &k, .n_spans = 1}, {.plane = "v", .spans = &v, .n_spans = 1}};
    sealstone_item item = {.hash = b.hash, .hash_len = HASH, .parts = parts, .n_parts = 2};
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &item, NULL), OK);
    memset(m, 0xa5, len);
    sealstone_submit_options o = {.struct_bytes = sizeof o, .flags = SEALSTONE_WAIT_FOR_DEVICE};
    sealstone_result r;
    run(&c, SEALSTONE_OP_GET, &item, 1, &o, &r);
    CHECK(r.status == OK && memcmp(m, b.k, K_BYTES) == 0 && memcmp(m + 8192, b.v, V_BYTES) == 0);
    for (size_t i = 8192 + V_BYTES; i < len; i++) CHECK(m[i] == 0xa5);
    CHECK_STATUS(sealstone_unregister_region(c.store, region), OK);
    CHECK_STATUS(sealstone_unregister_region(c.store, region), SEALSTONE_BAD_HANDLE);
    block_free(&b);
    ctx_close(&c);
    munmap(m, len);
    close(fd);
}

void test_epoch(const struct place *p) {
    struct ctx c;
    struct block b;
    sealstone_namespace old;
    char text[256];
    ctx_open(&c, p);
    block_init(&b, 600);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &b.item, NULL), OK);
    old = c.ns;
    CHECK_STATUS(sealstone_bump_epoch(old, 0, &c.ns, text, sizeof text), OK);
    sealstone_item bare = {.hash = b.hash, .hash_len = HASH};
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &bare, NULL), SEALSTONE_MISS);
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &b.item, NULL), OK);
    sealstone_namespace now = c.ns;
    c.ns = old;
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_PUT, &b.item, NULL), SEALSTONE_STALE_EPOCH);
    CHECK_STATUS(sealstone_close_namespace(old), OK);
    c.ns = now;
    CHECK_STATUS(run_one(&c, SEALSTONE_OP_EXISTS, &bare, NULL), OK);
    block_free(&b);
    ctx_close(&c);
}
