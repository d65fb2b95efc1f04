/* Calls by themselves: arguments, handles, namespaces, reports. */
#include "check.h"

void test_library(const struct place *p) {
    (void)p;
    CHECK(sealstone_abi_version() == SEALSTONE_ABI_VERSION);
    CHECK(strlen(sealstone_version()) > 0);
    CHECK(strcmp(sealstone_status_name(SEALSTONE_CORRUPT), "Corrupt") == 0);
    for (int st = 0; st <= SEALSTONE_DENIED; st++) {
        int known = st <= SEALSTONE_INVALID || st >= SEALSTONE_BAD_HANDLE;
        CHECK((strcmp(sealstone_status_name(st), "Unknown") != 0) == known);
    }
    /* What bindings in other languages rely on. */
    CHECK(sizeof(sealstone_span) == 16 && sizeof(sealstone_part) == 40 && sizeof(sealstone_item) == 64);
    CHECK(sizeof(sealstone_submit_options) == 24 && sizeof(sealstone_result) == 32 && sizeof(sealstone_completion) == 40);
}

void test_arguments(const struct place *p) {
    struct ctx c;
    struct block b;
    char text[8];
    sealstone_store none = 7;
    CHECK_STATUS(sealstone_open(NULL, &none, text, sizeof text), SEALSTONE_INVALID);
    CHECK(none == 0 && strlen(text) == sizeof text - 1); /* cut, and ended */
    char room[4096];
    CHECK_STATUS(sealstone_open(NULL, &none, room, SIZE_MAX), SEALSTONE_INVALID);
    CHECK(strcmp(room, "options_json is NULL") == 0); /* no more than that is touched */
    CHECK_STATUS(sealstone_open("{}", NULL, NULL, 0), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_open("{\"dir\":\"/d\",\"capacty_bytes\":1}", &none, NULL, 0), SEALSTONE_INVALID);
    ctx_open(&c, p);
    block_init(&b, 1);
    const sealstone_item good = b.item;
    uint64_t id;
#define REFUSED(op, items, n, o) CHECK_STATUS(sealstone_submit(c.store, c.ns, op, items, n, o, &id), SEALSTONE_INVALID)
    REFUSED(0, &good, 1, NULL);
    REFUSED(6, &good, 1, NULL);
    REFUSED(SEALSTONE_OP_GET, NULL, 1, NULL);
    REFUSED(SEALSTONE_OP_GET, &good, SEALSTONE_ITEMS_MAX + 1, NULL);
    REFUSED(SEALSTONE_OP_EXISTS, &good, 1, NULL); /* with parts */
#define BAD_ITEM(op, change)      \
    do {                          \
        sealstone_item it = good; \
        change;                   \
        REFUSED(op, &it, 1, NULL); \
    } while (0)
    BAD_ITEM(SEALSTONE_OP_GET, it.reserved[1] = 1);
    BAD_ITEM(SEALSTONE_OP_GET, it.hash = NULL);
    BAD_ITEM(SEALSTONE_OP_GET, (it.parent = b.hash, it.parent_len = HASH));
    BAD_ITEM(SEALSTONE_OP_GET, it.parts = NULL);
    BAD_ITEM(SEALSTONE_OP_GET, it.n_parts = SEALSTONE_PARTS_MAX + 1);
    BAD_ITEM(SEALSTONE_OP_PUT, it.seal_len = 9);
    sealstone_part part = b.parts[0];
    sealstone_span span = b.spans[0];
#define BAD_PART(op, change)                            \
    do {                                                \
        sealstone_item it = good;                       \
        part = b.parts[0], span = b.spans[0];           \
        part.spans = &span, it.parts = &part, it.n_parts = 1; \
        change;                                         \
        REFUSED(op, &it, 1, NULL);                      \
    } while (0)
    BAD_PART(SEALSTONE_OP_PUT, part.offset = 1);
    BAD_PART(SEALSTONE_OP_PUT, part.reserved = 1);
    BAD_PART(SEALSTONE_OP_GET, part.length = UINT64_MAX);
    BAD_PART(SEALSTONE_OP_GET, part.spans = NULL);
    BAD_PART(SEALSTONE_OP_GET, part.n_spans = SEALSTONE_SPANS_MAX + 1);
    BAD_PART(SEALSTONE_OP_GET, span.ptr = NULL);
    BAD_PART(SEALSTONE_OP_GET, span.len = SEALSTONE_BLOCK_MAX + 1);
    BAD_PART(SEALSTONE_OP_GET, span.ptr = (void *)(UINTPTR_MAX - 5));
    sealstone_submit_options o = {.struct_bytes = sizeof o, .timeout_ns = -1};
    REFUSED(SEALSTONE_OP_GET, &good, 1, &o);
    o.timeout_ns = 0, o.struct_bytes = 8;
    REFUSED(SEALSTONE_OP_GET, &good, 1, &o);
    o.struct_bytes = sizeof o, o.flags = 4;
    REFUSED(SEALSTONE_OP_GET, &good, 1, &o);
    o.flags = SEALSTONE_DURABLE;
    REFUSED(SEALSTONE_OP_GET, &good, 1, &o);
    /* What is wrong with one item alone is its own status. */
    sealstone_item two[2] = {good, good};
    two[0].hash_len = 5;
    sealstone_result r[2];
    run(&c, SEALSTONE_OP_PUT, two, 2, NULL, r);
    CHECK(r[0].status == SEALSTONE_INVALID && r[1].status == OK);
    sealstone_part wrong = b.parts[0];
    wrong.plane = "no such plane";
    two[0] = good, two[0].parts = &wrong, two[0].n_parts = 1;
    run(&c, SEALSTONE_OP_GET, two, 1, NULL, r);
    CHECK(r[0].status != OK);
    run(&c, SEALSTONE_OP_PUT, NULL, 0, NULL, NULL); /* no items, one completion */

    sealstone_completion done;
    size_t n;
    CHECK_STATUS(sealstone_drain(c.store, NULL, 1, r, 2, &n, NULL), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_drain(c.store, &done, 0, r, 2, &n, NULL), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_drain(c.store, &done, 1, NULL, 2, &n, NULL), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_drain(c.store, &done, 1, r, 2, NULL, NULL), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_event_fd(c.store, NULL), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_wait_idle(c.store, -5), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_close(c.store, -5, NULL, 0), SEALSTONE_INVALID);
    uint8_t st;
    CHECK_STATUS(sealstone_lookup_now(c.ns, b.hash, 15, 1, &st), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_lookup_now(c.ns, b.hash, HASH, SEALSTONE_LOOKUP_MAX + 1, &st), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_lookup_now(c.ns, NULL, HASH, 1, &st), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_lookup_now(c.ns, b.hash, HASH, 1, NULL), SEALSTONE_INVALID);
    CHECK_STATUS(sealstone_match(c.ns, b.hash, HASH, 1, 0, NULL, NULL, NULL, 0), SEALSTONE_INVALID);
    sealstone_region region;
    CHECK_STATUS(sealstone_register_region(c.store, NULL, 4096, -1, &region, NULL, 0), SEALSTONE_INVALID);
    block_free(&b);
    ctx_close(&c);
}

void test_handles(const struct place *p) {
    struct ctx c;
    ctx_open(&c, p);
    sealstone_store store = c.store;
    sealstone_namespace ns = c.ns;
    ctx_close(&c);
    const uint64_t bad[] = {0, 1, UINT64_MAX, store, ns};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t h = bad[i], out;
        uint8_t hash[HASH] = {0}, st;
        size_t n;
        int fd;
        int32_t state;
        char text[64];
        sealstone_completion done;
        sealstone_item item = {.hash = hash, .hash_len = HASH};
#define GONE(call) CHECK_STATUS(call, SEALSTONE_BAD_HANDLE)
        GONE(sealstone_close(h, 0, text, sizeof text));
        GONE(sealstone_stats(h, text, sizeof text, &n));
        GONE(sealstone_health(h, &state, text, sizeof text, &n));
        GONE(sealstone_events(h, 0, text, sizeof text, &n));
        GONE(sealstone_open_namespace(h, layout_json, NULL, NULL, &out, text, sizeof text, &n));
        GONE(sealstone_namespace_info(h, text, sizeof text, &n));
        GONE(sealstone_bump_epoch(h, 0, &out, text, sizeof text));
        GONE(sealstone_close_namespace(h));
        GONE(sealstone_register_region(h, hash, sizeof hash, -1, &out, text, sizeof text));
        GONE(sealstone_unregister_region(h, h));
        GONE(sealstone_submit(h, h, SEALSTONE_OP_EXISTS, &item, 1, NULL, &out));
        GONE(sealstone_drain(h, &done, 1, NULL, 0, &n, &n));
        GONE(sealstone_event_fd(h, &fd));
        GONE(sealstone_reason(h, 1, 0, text, sizeof text));
        GONE(sealstone_wait_idle(h, 0));
        GONE(sealstone_lookup_now(h, hash, HASH, 1, &st));
        GONE(sealstone_match(h, hash, HASH, 1, 0, &n, &out, text, sizeof text));
        GONE(sealstone_renew(h));
        GONE(sealstone_release(h));
    }
}

void test_namespaces(const struct place *p) {
    struct ctx c;
    char detail[4096], again[4096];
    size_t need = 0;
    sealstone_namespace ns;
    ctx_open(&c, p);
    CHECK_STATUS(sealstone_namespace_info(c.ns, detail, sizeof detail, &need), OK);
    CHECK(strlen(detail) + 1 == need && strstr(detail, "\"tenant\":\"default\"") && strstr(detail, "\"name\":\"v\""));
    CHECK_STATUS(sealstone_namespace_info(c.ns, again, need - 1, &need), SEALSTONE_TOO_SMALL);
    CHECK(again[0] == 0);
    CHECK_STATUS(sealstone_namespace_info(c.ns, again, need, NULL), OK);
    CHECK(strcmp(detail, again) == 0);

    char other[2048];
    const char *at = strstr(layout_json, "\"dtype\":\"bytes\"");
    snprintf(other, sizeof other, "%.*s\"dtype\":\"fp8\"%s", (int)(at - layout_json), layout_json, at + 15);
    sealstone_status st = sealstone_open_namespace(c.store, other, NULL, "{\"require_match\":true}", &ns, detail, sizeof detail, NULL);
    CHECK_STATUS(st, SEALSTONE_LAYOUT_MISMATCH);
    CHECK(ns == 0 && strstr(detail, "\"field\":\"dtype\"") && strstr(detail, "fp8"));
    CHECK_STATUS(sealstone_open_namespace(c.store, "{\"model\":\"x\"}", NULL, NULL, &ns, detail, sizeof detail, NULL), SEALSTONE_INVALID);
    CHECK(ns == 0 && strstr(detail, "weights_digest"));
    CHECK_STATUS(sealstone_open_namespace(c.store, layout_json, NULL, NULL, &ns, detail, 3, &need), OK);
    CHECK(detail[0] == 0 && need > 3); /* no room for the detail is no failure */
    CHECK_STATUS(sealstone_close_namespace(ns), OK);
    CHECK_STATUS(sealstone_close_namespace(ns), SEALSTONE_BAD_HANDLE);
    ctx_close(&c);
}

void test_reports(const struct place *p) {
    struct ctx c;
    static char json[1 << 20];
    size_t need;
    int32_t state;
    ctx_open(&c, p);
    CHECK_STATUS(sealstone_stats(c.store, json, 10, &need), SEALSTONE_TOO_SMALL);
    CHECK(json[0] == 0 && need > 10);
    CHECK_STATUS(sealstone_stats(c.store, json, sizeof json, &need), OK);
    CHECK(strstr(json, p->server ? "\"mode\":\"server\"" : "\"mode\":\"embedded\"") && strstr(json, "\"library\":{\"operations_open\":0"));
    CHECK(strstr(json, "\"capacity_bytes\":") && !strstr(json, "\"server\":") == !p->server);
    CHECK_STATUS(sealstone_health(c.store, &state, json, sizeof json, NULL), OK);
    CHECK(state == SEALSTONE_HEALTH_OK && strcmp(json, "{\"state\":\"ok\",\"reasons\":[]}") == 0);
    CHECK_STATUS(sealstone_health(c.store, &state, NULL, 0, NULL), OK);
    sealstone_status st = sealstone_events(c.store, 0, json, sizeof json, NULL);
    CHECK_STATUS(st, p->server ? SEALSTONE_UNSUPPORTED : OK);
    CHECK(p->server || strstr(json, "\"kind\":\"opened\""));
    ctx_close(&c);
}
