/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealstone.h: the C ABI of Sealstone, a verified disk tier for KV-cache
 * blocks. The library keeps blocks on disk over restarts and gives them back
 * only after their bytes were verified; anything else is a miss with a reason.
 *
 * One ABI, two modes. With {"dir": ...} the process owns a store directory
 * (embedded); with {"server": ...} it is a client of `sealstone serve`, which
 * several processes of a host share. All calls are the same in both; where an
 * answer differs, the call says so.
 *
 * Example (docs/client-c.md has a whole program that is compiled and run by
 * the tests):
 *
 *     char err[512];
 *     sealstone_store store;
 *     if (sealstone_open("{\"dir\":\"/nvme/kv\"}", &store, err, sizeof err)
 *             != SEALSTONE_OK) { ... err says what, where and what to do ... }
 *     sealstone_namespace ns;
 *     sealstone_open_namespace(store, layout_json, "tenant", NULL, &ns,
 *             detail, sizeof detail, NULL);
 *
 *     sealstone_span span = { page, page_bytes };
 *     sealstone_part part = { .plane = "kv", .spans = &span, .n_spans = 1 };
 *     sealstone_item item = { .hash = hash, .hash_len = 32,
 *                             .parts = &part, .n_parts = 1 };
 *     uint64_t op;
 *     sealstone_submit(store, ns, SEALSTONE_OP_GET, &item, 1, NULL, &op);
 *     struct pollfd p = { .fd = fd, .events = POLLIN };  // sealstone_event_fd
 *     poll(&p, 1, -1);
 *     sealstone_completion done; sealstone_result result; size_t n;
 *     sealstone_drain(store, &done, 1, &result, 1, &n, NULL);
 *     if (result.status != SEALSTONE_OK) recompute(hash);
 *
 * Rules that hold for every call
 * ------------------------------
 * Threads.   Every call may be made from any thread at any time, also on the
 *            same handle. Calls marked "never blocks" do no I/O and wait for
 *            no device and no peer; a lock is held for moments only.
 * Results.   Calls return a sealstone_status. Success is SEALSTONE_OK, which
 *            is 1: memory that was never filled in (0, SEALSTONE_NONE) cannot
 *            be taken for success.
 * Handles.   Stores, namespaces, regions and leases are integers, never 0 and
 *            never used twice. A handle that was closed, or never was, answers
 *            SEALSTONE_BAD_HANDLE; it cannot crash. Closing a store ends all
 *            handles that came from it.
 * Text.      A call that writes text takes a buffer and its size in bytes. The
 *            text always ends in NUL (where the size is over 0) and is cut to
 *            fit. NULL with size 0 is allowed: no text. Error texts are one
 *            line. JSON is never cut: where it does not fit the call returns
 *            SEALSTONE_TOO_SMALL with the size that it needs, NUL included, in
 *            *needed (which may be NULL), and the buffer holds "".
 * Strings.   Strings given to a call are UTF-8, end in NUL and are copied; they
 *            may be freed when the call returns. JSON is read strictly: an
 *            unknown key, a duplicate key or anything after the value is
 *            SEALSTONE_INVALID and the text names it. At most 1 MiB.
 * Times.     Timeouts are nanoseconds: 0 means the store's call timeout (30 s
 *            unless opened with another), negative is SEALSTONE_INVALID, and
 *            nothing waits for more than 24 hours.
 * Sizes.     Bytes, unless the name says otherwise.
 * Process.   The library does not exit or abort its process, prints nothing,
 *            starts no process, changes no working directory, umask or
 *            environment variable. A bug in it ends as SEALSTONE_INTERNAL and
 *            in sealstone_health, not as a crash of the host. What the Go
 *            runtime inside does with signals is said in docs/client-c.md.
 * Fork.      Load and open in the process that uses the store. In a child of
 *            fork() every call returns SEALSTONE_FORKED at once, texts and JSON
 *            are "", and the child's copies of the directory's lock are closed;
 *            the parent goes on undisturbed. Exec in the child is fine.
 * Unload.    dlclose() leaves the library in the process: its threads live on.
 */
#ifndef SEALSTONE_H
#define SEALSTONE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It changes with every change that is not an
 * addition, and with it the library's SONAME (libsealstone.so.1). Additions
 * keep it: new calls, new keys, new statuses, new bits. Compare it with
 * sealstone_abi_version() before anything else. */
#define SEALSTONE_ABI_VERSION 1u

/* Limits that are fixed in this version. */
#define SEALSTONE_HASH_MIN 16u         /* bytes of a block hash */
#define SEALSTONE_HASH_MAX 64u
#define SEALSTONE_BLOCK_MAX 67108864u  /* bytes of a block, all planes */
#define SEALSTONE_ITEMS_MAX 65536u     /* items of one submit */
#define SEALSTONE_PARTS_MAX 1024u      /* parts of one item */
#define SEALSTONE_SPANS_MAX 1048576u   /* spans of one submit */
#define SEALSTONE_LOOKUP_MAX 1048576u  /* hashes of one lookup_now or match */
#define SEALSTONE_HANDLES_MAX 65536u   /* open handles of each kind */

/* A status is the outcome of a call, of an operation or of one item. Numbers
 * are never reused; treat one that you do not know as a miss. */
typedef int32_t sealstone_status;
enum {
    SEALSTONE_NONE = 0, /* no outcome: never returned */
    /* Of items, and of calls: */
    SEALSTONE_OK = 1,               /* GET: every byte verified and copied. PUT: stored. EXISTS, TOUCH: stored. DROP: gone for good. Call: done */
    SEALSTONE_MISS = 2,             /* not stored: compute it */
    SEALSTONE_CORRUPT = 3,          /* was there and did not verify; it is quarantined: a miss with a reason */
    SEALSTONE_IO_ERROR = 4,         /* the device failed. GET may be tried again; PUT is unknown: later wholly visible or not at all */
    SEALSTONE_TIMEOUT = 5,          /* time ran out. PUT, DROP: unknown. lookup_now: memory alone cannot tell */
    SEALSTONE_SHED = 6,             /* a bound was reached and the work refused before anything was visible */
    SEALSTONE_TOO_LARGE = 7,        /* the block exceeds the store's largest */
    SEALSTONE_LENGTH_MISMATCH = 8,  /* spans do not add up to what is stored or declared */
    SEALSTONE_LAYOUT_MISMATCH = 9,  /* planes are not the layout's; open_namespace: the layout differs from a stored one */
    SEALSTONE_STALE_EPOCH = 10,     /* the namespace handle is from before a bump_epoch: open it again */
    SEALSTONE_CLOSED = 11,          /* the store is closed or closing */
    SEALSTONE_INVALID = 12,         /* malformed argument */
    /* Of calls only: */
    SEALSTONE_BAD_HANDLE = 32,      /* no such handle, not any more, or of another store */
    SEALSTONE_FORKED = 33,          /* this process is a child of the one that loaded the library */
    SEALSTONE_INTERNAL = 34,        /* a bug in the library (of items, too); sealstone_health keeps what is known */
    SEALSTONE_LOCKED = 35,          /* another process has the directory open */
    SEALSTONE_NO_STORE = 36,        /* no store there, or no directory (must_exist) */
    SEALSTONE_UNSUPPORTED = 37,     /* written by a newer version, or not possible in this mode */
    SEALSTONE_DAMAGED = 38,         /* a file without which the store cannot be opened is damaged */
    SEALSTONE_CAPACITY = 39,        /* the capacity is too small; the text has the least figure */
    SEALSTONE_PATH_REFUSED = 40,    /* the forced I/O path is not proven here; the text says why */
    SEALSTONE_CLOSING = 41,         /* close ran out of time: requests are still in flight; call it again */
    SEALSTONE_TOO_SMALL = 42,       /* a buffer of the caller is too small */
    SEALSTONE_READ_ONLY = 43,       /* the store was opened read-only or has become so */
    SEALSTONE_UNAVAILABLE = 44,     /* the server cannot be reached */
    SEALSTONE_DENIED = 45           /* the server refuses the token, or the right is missing */
};

/* Handles. 0 is none. */
typedef uint64_t sealstone_store;
typedef uint64_t sealstone_namespace;
typedef uint64_t sealstone_region;
typedef uint64_t sealstone_lease;

/* ------------------------------------------------------------------ library */

/* SEALSTONE_ABI_VERSION of the loaded library. Never blocks; works after fork. */
uint32_t sealstone_abi_version(void);

/* The library's version as text, such as "v1.2.0". Owned by the library, valid
 * for ever. Works after fork. */
const char *sealstone_version(void);

/* The name of a status as documents and logs have it ("Miss", "Corrupt"), or
 * "Unknown". Owned by the library, valid for ever. Never blocks; works after
 * fork. */
const char *sealstone_status_name(sealstone_status status);

/* -------------------------------------------------------------------- store */

/* Opens a store. options_json is an object.
 *
 * Embedded, the directory is this process' alone until close:
 *   dir                    path; made if it is not there. Required
 *   capacity_bytes         bound of all disk bytes; default 80 % of what is free
 *   free_floor_bytes       left free for others; default 1 %, at most 1 GiB
 *   max_block_bytes        largest block; default 64 MiB
 *   segment_bytes          when a store is created
 *   path                   "auto" (default), "uring-direct", "pread-direct",
 *                          "buffered"
 *   read_only, create_only, must_exist, no_sharing     true or false
 *   on_incompatible        "refuse" (default), "set-aside"
 *   max_inflight_bytes     buffers of puts and gets; default 256 MiB
 *   max_pending_bytes      written, not yet in the index; default 512 MiB
 *   host_cache_bytes       verified blocks kept in RAM; default 0
 *   hint_bytes             table behind lookup_now; default 64 MiB, -1: none
 *   index_cache_bytes      default 64 MiB
 *   read_workers           threads that read; default 32, at most 64
 *   max_open_files         default 256
 *   sync_interval_ms       how much a power cut may take; default 1000
 *   lease_ms               how long a match keeps blocks; default 60000
 *   write_budget_bytes_per_day   default 0: none
 *   admission              "all" (default), "second-touch"
 *
 * Client of a server:
 *   server                 "unix:/path" or "host:port". Required
 *   token                  password of the tenant, where the server wants one
 *   user                   with token; default: the token alone
 *
 * Both:
 *   queue_operations       operations submitted and not drained; default 1024,
 *                          at most 65536
 *   queue_bytes            bytes of their spans, and of what the library keeps
 *                          for them; default 4 GiB. One operation alone may be
 *                          larger
 *   workers                operations that run at a time; default 32, at most
 *                          128
 *   call_timeout_ms        for calls and operations without a timeout; default
 *                          30000
 *
 * Blocks while a crash is recovered from (seconds, or minutes where an index
 * has to be rebuilt). A server has to be there, and is reconnected to later.
 *
 * Errors: INVALID, LOCKED, NO_STORE, UNSUPPORTED, DAMAGED, CAPACITY,
 * PATH_REFUSED, IO_ERROR, UNAVAILABLE, DENIED, SHED (64 stores are open).
 * *store is 0 then and err says what, where and what to do. */
sealstone_status sealstone_open(const char *options_json, sealstone_store *store, char *err, size_t err_cap);

/* Closes a store. New work is refused from now on (SEALSTONE_CLOSED),
 * operations under way come to their ends, what was put is synced, the lock is
 * given up. OK: all handles of the store are gone, no memory of the caller is
 * touched any more, and completions that were not drained are discarded (their
 * operations did end). CLOSING: time ran out, requests are still with the
 * kernel; the directory stays locked, the memory stays in use, sealstone_drain
 * and sealstone_close may be called again and nothing else. Other errors are of
 * the last sync (IO_ERROR): the handle is gone as with OK. */
sealstone_status sealstone_close(sealstone_store store, int64_t timeout_ns, char *err, size_t err_cap);

/* Figures as one JSON object: "mode" ("embedded" or "server"), "library" (what
 * is queued and open here), and of the store "store", "host_tier", "paths",
 * "direct_refused" and "tenants", as in the answer of a server's /status; in
 * server mode "server" too, as there. Keys may be added. Embedded: never waits
 * for a device. Server: one round trip, bounded by the call timeout, and the
 * admin right is needed. Errors: TOO_SMALL, UNAVAILABLE. */
sealstone_status sealstone_stats(sealstone_store store, char *json, size_t cap, size_t *needed);

/* How much of its work the store does: *state (may be NULL) is one of the
 * below, json {"state":"ok","reasons":["..."]}. SEALSTONE_HEALTH_UNREACHED:
 * no server. With json NULL and cap 0 the state alone is asked for: OK, not
 * TOO_SMALL. Embedded: never blocks. */
enum {
    SEALSTONE_HEALTH_OK = 1,        /* reads and writes */
    SEALSTONE_HEALTH_READ_ONLY = 2, /* gets are answered, puts are shed */
    SEALSTONE_HEALTH_ALL_MISS = 3,  /* every get is a miss, every put is shed */
    SEALSTONE_HEALTH_CLOSED = 4,
    SEALSTONE_HEALTH_UNREACHED = 5
};
sealstone_status sealstone_health(sealstone_store store, int32_t *state, char *json, size_t cap, size_t *needed);

/* What happened, as a JSON array of {"seq","time","kind","message"}: the events
 * after number `after` that are still in the ring (256). Never blocks. Server
 * mode: UNSUPPORTED, they are on the server's status page. */
sealstone_status sealstone_events(sealstone_store store, uint64_t after, char *json, size_t cap, size_t *needed);

/* --------------------------------------------------------------- namespaces */

/* Opens the namespace of a layout and a tenant, and makes it if it is new.
 * layout_json is everything that decides what a block's bytes mean
 * (docs/format/layout.md has the fields); tenant may be NULL or "" for
 * "default". In server mode another tenant than the token's needs its right.
 *
 * options_json (may be NULL):
 *   require_match      true: do not make a namespace where the tenant has blocks
 *                      of the same model under another layout
 *   compression        "off" (default), "auto", "s2", "zstd"
 *   min_saving_share   what "auto" wants to save; default 0.10
 *   timeout_ms         default: the call timeout
 *
 * detail is JSON. With OK: {"number","tenant","fingerprint","epoch","planes":
 * [{"name","size_bytes"}],"differences":[{"field","stored","asked"}],
 * "warnings":[...]}; differences are those of a new namespace to the nearest
 * stored one: blocks under that one are not found under this. Read warnings to
 * an operator. With LAYOUT_MISMATCH (require_match): {"differences":[...]}.
 * With any other error: {"error":"..."}. Where it does not fit, detail is "" and
 * the outcome is as it is; sealstone_namespace_info has it again after OK.
 *
 * Errors: BAD_HANDLE, INVALID (each field that is missing or impossible is
 * named), LAYOUT_MISMATCH, READ_ONLY, TIMEOUT, IO_ERROR, CLOSED, UNAVAILABLE,
 * DENIED, SHED (SEALSTONE_HANDLES_MAX). */
sealstone_status sealstone_open_namespace(sealstone_store store, const char *layout_json, const char *tenant,
                                          const char *options_json, sealstone_namespace *ns, char *detail,
                                          size_t cap, size_t *needed);

/* The detail of a namespace handle again. Never blocks. Errors: TOO_SMALL. */
sealstone_status sealstone_namespace_info(sealstone_namespace ns, char *json, size_t cap, size_t *needed);

/* Makes all blocks of the namespace invisible at once: the weights were
 * swapped. Durable when it returns OK. *next is a handle of the new epoch; the
 * old one answers STALE_EPOCH from now on and has still to be closed.
 * Errors: STALE_EPOCH, TIMEOUT (the epoch may move on later, or not), READ_ONLY,
 * IO_ERROR, CLOSED, UNAVAILABLE, DENIED. */
sealstone_status sealstone_bump_epoch(sealstone_namespace ns, int64_t timeout_ns, sealstone_namespace *next,
                                      char *err, size_t err_cap);

/* Gives the handle back. The namespace and its blocks stay; operations that
 * were submitted with it go on. Never blocks. */
sealstone_status sealstone_close_namespace(sealstone_namespace ns);

/* ------------------------------------------------------------------ regions */

/* Makes memory known for zero-copy I/O. base and len are what operations'
 * spans will lie in; spans elsewhere always work, by a copy.
 *
 * Embedded: gets with SEALSTONE_WAIT_FOR_DEVICE are read by the device straight
 * into it, where spans are cut at multiples of 4096 bytes and a block is wanted
 * whole. fd is not used (-1).
 * Server over a Unix socket: fd is the file that base maps from its beginning
 * with MAP_SHARED (a memfd, a file in /dev/shm); the server maps it too and
 * spans travel as offsets. The descriptor stays the caller's and may be closed
 * after the call. Over TCP: UNSUPPORTED, use it without.
 *
 * The memory must stay mapped until unregister_region or close returned OK.
 * Errors: INVALID, UNSUPPORTED, IO_ERROR, SHED, UNAVAILABLE. */
sealstone_status sealstone_register_region(sealstone_store store, void *base, uint64_t len, int fd,
                                           sealstone_region *region, char *err, size_t err_cap);

/* Ends a region. No operation may use it any more: drain them first. */
sealstone_status sealstone_unregister_region(sealstone_store store, sealstone_region region);

/* --------------------------------------------------------------- operations */

enum {
    SEALSTONE_OP_PUT = 1,    /* store; parts hold the planes of the layout, each once */
    SEALSTONE_OP_GET = 2,    /* read; parts, at least one, say which planes or ranges, and where to */
    SEALSTONE_OP_EXISTS = 3, /* OK or MISS; no block is read; no parts */
    SEALSTONE_OP_TOUCH = 4,  /* the same, and marks as used: eviction prefers others */
    SEALSTONE_OP_DROP = 5    /* remove for good; no parts */
};

/* Memory of the caller: read by PUT, written by GET. */
typedef struct sealstone_span {
    void *ptr;
    uint64_t len;
} sealstone_span;

/* One plane of a block, or a range of it, as a list of spans in order. */
typedef struct sealstone_part {
    const char *plane;            /* its name; NULL or "" where the layout has just one */
    const sealstone_span *spans;
    uint32_t n_spans;
    uint32_t reserved;            /* 0 */
    uint64_t offset;              /* GET: where the range begins within the plane. PUT: 0 */
    uint64_t length;              /* GET: bytes of the range, 0: to the end of the plane; the spans must
                                     add up to it exactly. PUT: 0 */
} sealstone_part;

/* One block. */
typedef struct sealstone_item {
    const uint8_t *hash;          /* SEALSTONE_HASH_MIN to SEALSTONE_HASH_MAX bytes */
    const uint8_t *parent;        /* PUT: hash of the block before it in the prefix; NULL at the root */
    uint32_t hash_len;
    uint32_t parent_len;
    const sealstone_part *parts;
    uint32_t n_parts;
    uint32_t seal_len;            /* bytes at seal. PUT: of the seal. GET: room for one */
    uint8_t *seal;                /* PUT: what the bytes' sums must come to, or NULL. GET: where to write
                                     the block's seal, or NULL. See docs/client-c.md for its bytes */
    uint64_t reserved[2];         /* 0 */
} sealstone_item;

/* Bits of sealstone_submit_options.flags. */
enum {
    SEALSTONE_DURABLE = 1,         /* PUT: OK means that it survives a power cut, not only the end of the process */
    SEALSTONE_WAIT_FOR_DEVICE = 2  /* GET: the device may write into a registered region. The completion comes only
                                      when it has ended, past the timeout if need be, and destinations of blocks
                                      that are not OK may hold zeros instead of their old bytes */
};

typedef struct sealstone_submit_options {
    uint32_t struct_bytes; /* sizeof(sealstone_submit_options) */
    uint32_t flags;
    int64_t timeout_ns;    /* of the whole operation, from submit; 0: the call timeout */
    uint64_t user_data;    /* comes back in the completion */
} sealstone_submit_options;

/* Submits one operation on a batch of blocks. Never blocks: no I/O, no waiting.
 * options may be NULL.
 *
 * OK: the operation is accepted, *op_id (may be NULL) is its number, and
 * exactly one completion will come out of sealstone_drain. Hashes, parents,
 * plane names, seals to check and all lists are copied before submit returns.
 * The bytes behind the spans, and room for seals, belong to the operation until
 * its completion was drained, or close returned OK: PUT sources must not change
 * (a change is at worst stored as it was when it was copied), GET destinations
 * must not be read. From then on no thread, kernel request or device touches
 * them. An operation whose timeout ended completes as soon as the library has
 * let go of the memory, which waits for no device (but see
 * SEALSTONE_WAIT_FOR_DEVICE).
 *
 * Anything else: not accepted, nothing will come, nothing was kept.
 *   SHED        queue_operations or queue_bytes is reached: drain, or do
 *               without. Operations count until they are drained
 *   INVALID     a pointer is NULL where it must not be, a limit of this header
 *               is exceeded, unknown op or flag, a reserved field is not 0, or
 *               a timeout is negative
 *   BAD_HANDLE  store or namespace, or the namespace is of another store
 *   CLOSED      the store is closing
 * What is wrong with one item alone (length of its hash, its planes) is that
 * item's status in the completion. An n of 0 is accepted and completes. */
sealstone_status sealstone_submit(sealstone_store store, sealstone_namespace ns, uint32_t op,
                                  const sealstone_item *items, size_t n,
                                  const sealstone_submit_options *options, uint64_t *op_id);

/* Bits of sealstone_result.flags. */
enum {
    SEALSTONE_RESULT_EXISTED = 1,  /* PUT: the key was stored already; nothing was written */
    SEALSTONE_RESULT_DIFFERS = 2,  /* PUT: ... and with other content, which stays */
    SEALSTONE_RESULT_SHARED = 4,   /* PUT: the bytes of an equal block are used */
    SEALSTONE_RESULT_DURABLE = 8   /* PUT: survives a power cut now */
};

/* The outcome of one item. */
typedef struct sealstone_result {
    sealstone_status status;
    uint32_t flags;
    uint64_t bytes;          /* GET: copied to the caller. PUT: appended to disk */
    uint64_t verified_bytes; /* GET: read and verified for it, in whole chunks of 64 KiB */
    uint32_t seal_len;       /* GET: bytes written at item.seal; more than its room: nothing was written, this much
                                is needed; 0: none was asked for, or not OK */
    uint32_t reserved;
} sealstone_result;

/* One completed operation. Its results are results[first_result] to
 * results[first_result + n_results - 1], in the order of its items. */
typedef struct sealstone_completion {
    uint64_t op_id;
    uint64_t user_data;
    sealstone_status status; /* OK: every item is OK; else the status of the first that is not */
    uint32_t op;
    uint32_t n_results;
    uint32_t n_ok;           /* results that are OK */
    uint64_t first_result;
} sealstone_completion;

/* Takes completions, oldest first, and copies them and their items' results
 * into the caller's arrays. Never blocks. *n is how many were taken, 0 if none
 * wait. Completions are taken whole: the call stops before the first whose
 * results do not fit any more. If not even the first fits: TOO_SMALL, *n is 0
 * and *needed_results (may be NULL) is the room that it needs. cap must be 1 or
 * more; results_cap may be 0 only if no operation has items. */
sealstone_status sealstone_drain(sealstone_store store, sealstone_completion *completions, size_t cap,
                                 sealstone_result *results, size_t results_cap, size_t *n, size_t *needed_results);

/* A descriptor (eventfd) for poll, epoll or an event loop. It is readable while
 * completions wait: level-triggered, reset by the drain that takes the last.
 * It also counts up by one with each completion, so edge-triggered epoll works
 * if each wake drains until *n is 0. Reading it is allowed and needless. It is
 * the library's: do not close it; it ends with sealstone_close. Never blocks. */
sealstone_status sealstone_event_fd(sealstone_store store, int *fd);

/* Why an item was not OK, in a sentence: what did not hold, in which file and
 * where. Kept for the last 1024 such items that were drained, of one operation
 * for the first 64; MISS if it is not there (any more). A plain miss has none.
 * Never blocks. */
sealstone_status sealstone_reason(sealstone_store store, uint64_t op_id, uint32_t item, char *text, size_t cap);

/* Waits until no operation is queued or running; their completions may wait to
 * be drained. TIMEOUT: some are. */
sealstone_status sealstone_wait_idle(sealstone_store store, int64_t timeout_ns);

/* ------------------------------------------------------------------ look-up */

/* Answers from memory alone, without I/O, in microseconds, one byte for each of
 * n hashes of hash_len bytes that lie one behind the other:
 *   SEALSTONE_OK       probably stored: a get is worth it
 *   SEALSTONE_MISS     not stored
 *   SEALSTONE_TIMEOUT  memory alone cannot tell (the table is still being
 *                      filled after open, was given too little room, or there
 *                      is none): ask with SEALSTONE_OP_EXISTS or match
 *   SEALSTONE_STALE_EPOCH, SEALSTONE_CLOSED
 * Only a get proves bytes. Never blocks: from Python, call it through
 * ctypes.PyDLL. Server mode: all SEALSTONE_TIMEOUT. Errors: BAD_HANDLE, INVALID. */
sealstone_status sealstone_lookup_now(sealstone_namespace ns, const uint8_t *hashes, uint32_t hash_len, size_t n,
                                      uint8_t *statuses);

/* Finds the longest stored prefix of a chain of hashes, laid out as above, and
 * promises to keep it for a while. *blocks is its length. *lease is 0 if there
 * is nothing to keep or no lease was to be had; release it when the blocks were
 * read. A lease is a promise that makes a get likely to succeed, not a proof.
 * Blocks the caller, for the timeout at most. Errors: TIMEOUT, STALE_EPOCH,
 * IO_ERROR, CLOSED, INVALID, UNAVAILABLE: treat all as *blocks == 0, which is
 * set. */
sealstone_status sealstone_match(sealstone_namespace ns, const uint8_t *hashes, uint32_t hash_len, size_t n,
                                 int64_t timeout_ns, size_t *blocks, sealstone_lease *lease, char *err,
                                 size_t err_cap);

/* Begins the lease's time anew. MISS: it has expired; match again. */
sealstone_status sealstone_renew(sealstone_lease lease);

/* Ends a lease. Forgotten leases expire and are then counted no more. */
sealstone_status sealstone_release(sealstone_lease lease);

#ifdef __cplusplus
}
#endif

#endif /* SEALSTONE_H */
