//go:build cgo && linux

// The exported functions. Each answers by itself in a child of fork, where the
// Go runtime is dead, and else enters Go. What they are told of constness ends
// here: Go has none.

#include "sealstone.h"
#include "fork.h"
#include "_cgo_export.h"

#include <stdio.h>

#define NOT_IN_CHILD \
    if (seal_forked()) return SEALSTONE_FORKED

// Text that the host reads is a string whatever becomes of the call: in a child
// of fork nobody else writes it.
#define EMPTY(text, cap) \
    if ((text) != NULL && (cap) > 0) (text)[0] = '\0'

// The same for what the call gives: 0 is no handle, and nothing found.
#define NOTHING(out) \
    if ((out) != NULL) *(out) = 0

static char version_text[64];

void seal_set_version(const char *text) { (void)snprintf(version_text, sizeof version_text, "%s", text); }

uint32_t sealstone_abi_version(void) { return SEALSTONE_ABI_VERSION; }

const char *sealstone_version(void) {
    if (!seal_forked()) seal_go_ready(); // returns when the library is initialized
    return version_text;
}

const char *sealstone_status_name(sealstone_status status) {
    switch (status) {
    case SEALSTONE_NONE: return "None";
    case SEALSTONE_OK: return "OK";
    case SEALSTONE_MISS: return "Miss";
    case SEALSTONE_CORRUPT: return "Corrupt";
    case SEALSTONE_IO_ERROR: return "IOError";
    case SEALSTONE_TIMEOUT: return "Timeout";
    case SEALSTONE_SHED: return "Shed";
    case SEALSTONE_TOO_LARGE: return "TooLarge";
    case SEALSTONE_LENGTH_MISMATCH: return "LengthMismatch";
    case SEALSTONE_LAYOUT_MISMATCH: return "LayoutMismatch";
    case SEALSTONE_STALE_EPOCH: return "StaleEpoch";
    case SEALSTONE_CLOSED: return "Closed";
    case SEALSTONE_INVALID: return "Invalid";
    case SEALSTONE_BAD_HANDLE: return "BadHandle";
    case SEALSTONE_FORKED: return "Forked";
    case SEALSTONE_INTERNAL: return "Internal";
    case SEALSTONE_LOCKED: return "Locked";
    case SEALSTONE_NO_STORE: return "NoStore";
    case SEALSTONE_UNSUPPORTED: return "Unsupported";
    case SEALSTONE_DAMAGED: return "Damaged";
    case SEALSTONE_CAPACITY: return "Capacity";
    case SEALSTONE_PATH_REFUSED: return "PathRefused";
    case SEALSTONE_CLOSING: return "Closing";
    case SEALSTONE_TOO_SMALL: return "TooSmall";
    case SEALSTONE_READ_ONLY: return "ReadOnly";
    case SEALSTONE_UNAVAILABLE: return "Unavailable";
    case SEALSTONE_DENIED: return "Denied";
    }
    return "Unknown";
}

sealstone_status sealstone_open(const char *options_json, sealstone_store *store, char *err, size_t err_cap) {
    NOTHING(store);
    EMPTY(err, err_cap);
    NOT_IN_CHILD;
    return seal_go_open((char *)options_json, store, err, err_cap);
}

sealstone_status sealstone_close(sealstone_store store, int64_t timeout_ns, char *err, size_t err_cap) {
    EMPTY(err, err_cap);
    NOT_IN_CHILD;
    return seal_go_close(store, timeout_ns, err, err_cap);
}

sealstone_status sealstone_stats(sealstone_store store, char *json, size_t cap, size_t *needed) {
    EMPTY(json, cap);
    NOT_IN_CHILD;
    return seal_go_stats(store, json, cap, needed);
}

sealstone_status sealstone_health(sealstone_store store, int32_t *state, char *json, size_t cap, size_t *needed) {
    NOTHING(state);
    EMPTY(json, cap);
    NOT_IN_CHILD;
    return seal_go_health(store, state, json, cap, needed);
}

sealstone_status sealstone_events(sealstone_store store, uint64_t after, char *json, size_t cap, size_t *needed) {
    EMPTY(json, cap);
    NOT_IN_CHILD;
    return seal_go_events(store, after, json, cap, needed);
}

sealstone_status sealstone_open_namespace(sealstone_store store, const char *layout_json, const char *tenant,
                                          const char *options_json, sealstone_namespace *ns, char *detail, size_t cap,
                                          size_t *needed) {
    NOTHING(ns);
    EMPTY(detail, cap);
    NOT_IN_CHILD;
    return seal_go_open_namespace(store, (char *)layout_json, (char *)tenant, (char *)options_json, ns, detail, cap,
                                  needed);
}

sealstone_status sealstone_namespace_info(sealstone_namespace ns, char *json, size_t cap, size_t *needed) {
    EMPTY(json, cap);
    NOT_IN_CHILD;
    return seal_go_namespace_info(ns, json, cap, needed);
}

sealstone_status sealstone_bump_epoch(sealstone_namespace ns, int64_t timeout_ns, sealstone_namespace *next,
                                      char *err, size_t err_cap) {
    NOTHING(next);
    EMPTY(err, err_cap);
    NOT_IN_CHILD;
    return seal_go_bump_epoch(ns, timeout_ns, next, err, err_cap);
}

sealstone_status sealstone_close_namespace(sealstone_namespace ns) {
    NOT_IN_CHILD;
    return seal_go_close_namespace(ns);
}

sealstone_status sealstone_register_region(sealstone_store store, void *base, uint64_t len, int fd,
                                           sealstone_region *region, char *err, size_t err_cap) {
    NOTHING(region);
    EMPTY(err, err_cap);
    NOT_IN_CHILD;
    return seal_go_register_region(store, base, len, fd, region, err, err_cap);
}

sealstone_status sealstone_unregister_region(sealstone_store store, sealstone_region region) {
    NOT_IN_CHILD;
    return seal_go_unregister_region(store, region);
}

sealstone_status sealstone_submit(sealstone_store store, sealstone_namespace ns, uint32_t op,
                                  const sealstone_item *items, size_t n, const sealstone_submit_options *options,
                                  uint64_t *op_id) {
    NOT_IN_CHILD;
    return seal_go_submit(store, ns, op, (sealstone_item *)items, n, (sealstone_submit_options *)options, op_id);
}

sealstone_status sealstone_drain(sealstone_store store, sealstone_completion *completions, size_t cap,
                                 sealstone_result *results, size_t results_cap, size_t *n, size_t *needed_results) {
    NOTHING(n);
    NOT_IN_CHILD;
    return seal_go_drain(store, completions, cap, results, results_cap, n, needed_results);
}

sealstone_status sealstone_event_fd(sealstone_store store, int *fd) {
    NOT_IN_CHILD;
    return seal_go_event_fd(store, fd);
}

sealstone_status sealstone_reason(sealstone_store store, uint64_t op_id, uint32_t item, char *text, size_t cap) {
    EMPTY(text, cap);
    NOT_IN_CHILD;
    return seal_go_reason(store, op_id, item, text, cap);
}

sealstone_status sealstone_wait_idle(sealstone_store store, int64_t timeout_ns) {
    NOT_IN_CHILD;
    return seal_go_wait_idle(store, timeout_ns);
}

sealstone_status sealstone_lookup_now(sealstone_namespace ns, const uint8_t *hashes, uint32_t hash_len, size_t n,
                                      uint8_t *statuses) {
    NOT_IN_CHILD;
    return seal_go_lookup_now(ns, (uint8_t *)hashes, hash_len, n, statuses);
}

sealstone_status sealstone_match(sealstone_namespace ns, const uint8_t *hashes, uint32_t hash_len, size_t n,
                                 int64_t timeout_ns, size_t *blocks, sealstone_lease *lease, char *err,
                                 size_t err_cap) {
    NOTHING(blocks);
    NOTHING(lease);
    EMPTY(err, err_cap);
    NOT_IN_CHILD;
    return seal_go_match(ns, (uint8_t *)hashes, hash_len, n, timeout_ns, blocks, lease, err, err_cap);
}

sealstone_status sealstone_renew(sealstone_lease lease) {
    NOT_IN_CHILD;
    return seal_go_renew(lease);
}

sealstone_status sealstone_release(sealstone_lease lease) {
    NOT_IN_CHILD;
    return seal_go_release(lease);
}
