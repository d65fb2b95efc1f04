/* The library in a host that forks and has signal handlers of its own:
 * host LIBRARY OPTIONS. It is loaded by dlopen after the handlers were set, as
 * an interpreter does. */
#define _GNU_SOURCE
#include "sealstone.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <dirent.h>
#include <unistd.h>

#define CHECK(cond)                                                            \
    do {                                                                       \
        if (!(cond)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

#define CALLS(X)                                                                                          \
    X(open) X(close) X(stats) X(health) X(events) X(open_namespace) X(namespace_info) X(bump_epoch)       \
    X(close_namespace) X(register_region) X(unregister_region) X(submit) X(drain) X(event_fd) X(reason)   \
    X(wait_idle) X(lookup_now) X(match) X(renew) X(release) X(version) X(abi_version) X(status_name)
#define DECLARE(name) static __typeof__(sealstone_##name) *s_##name;
CALLS(DECLARE)

static void *load(const char *path) {
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) fprintf(stderr, "%s\n", dlerror());
    CHECK(lib != NULL);
#define RESOLVE(name)                                 \
    *(void **)&s_##name = dlsym(lib, "sealstone_" #name); \
    CHECK(s_##name != NULL);
    CALLS(RESOLVE)
    return lib;
}

static const char layout[] =
    "{\"model\":\"host\",\"weights_digest\":\"none\",\"dtype\":\"bytes\",\"kv_layout\":\"NHD\",\"tokens_per_block\":16,"
    "\"layers\":2,\"kv_heads\":2,\"head_size\":8,\"planes\":[{\"name\":\"kv\"}],\"tp\":{\"agnostic\":true},"
    "\"pp\":{\"agnostic\":true},\"cp\":{\"agnostic\":true},\"rope\":\"none\",\"attention\":\"gqa\","
    "\"hybrid_kv_manager\":\"off\",\"engine\":\"host\",\"layout_version\":\"1\","
    "\"hash\":{\"algorithm\":\"sha256\",\"width_bytes\":32,\"root\":\"none\"}}";

static sealstone_store store;
static sealstone_namespace ns;
static uint8_t hash[32] = {1};
static uint8_t bytes[100000];
static sealstone_span span = {bytes, sizeof bytes};
static sealstone_part part = {.spans = &span, .n_spans = 1};
static sealstone_item item = {.hash = hash, .hash_len = sizeof hash, .parts = &part, .n_parts = 1};

static void open_store(const char *options) {
    char text[1024];
    if (s_open(options, &store, text, sizeof text) != SEALSTONE_OK) fprintf(stderr, "%s\n", text);
    CHECK(store != 0);
    CHECK(s_open_namespace(store, layout, NULL, NULL, &ns, text, sizeof text, NULL) == SEALSTONE_OK);
}

static sealstone_status run(uint32_t op) {
    sealstone_completion done;
    sealstone_result r;
    size_t n = 0;
    CHECK(s_submit(store, ns, op, &item, 1, NULL, NULL) == SEALSTONE_OK);
    CHECK(s_wait_idle(store, 0) == SEALSTONE_OK);
    CHECK(s_drain(store, &done, 1, &r, 1, &n, NULL) == SEALSTONE_OK && n == 1);
    return r.status;
}

/* ---- fork */

static int locks_open(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char name[300], target[4096];
        snprintf(name, sizeof name, "/proc/self/fd/%s", e->d_name);
        ssize_t len = readlink(name, target, sizeof target - 1);
        if (len < 0) continue;
        target[len] = 0;
        if (len > 5 && strcmp(target + len - 5, "/LOCK") == 0) n++;
    }
    closedir(d);
    return n;
}

/* Every call answers at once; what would hang is ended by the alarm. */
static void in_child(void) {
    uint64_t out = 0;
    uint8_t st;
    size_t n;
    int fd;
    int32_t state;
    char text[64];
    sealstone_completion done;
    sealstone_result r;
    alarm(60);
#define FORKED(call) CHECK((call) == SEALSTONE_FORKED)
/* What the call gives is nothing, and its text is a string, as of any that fails. */
#define FORKED_TEXT(call)                  \
    memset(text, 'x', sizeof text);        \
    out = 1, n = 1, state = 1;             \
    FORKED(call);                          \
    CHECK(text[0] == '\0')
    FORKED_TEXT(s_open("{}", &out, text, sizeof text));
    CHECK(out == 0);
    FORKED_TEXT(s_stats(store, text, sizeof text, &n));
    FORKED_TEXT(s_health(store, &state, text, sizeof text, &n));
    FORKED_TEXT(s_events(store, 0, text, sizeof text, &n));
    FORKED_TEXT(s_open_namespace(store, layout, NULL, NULL, &out, text, sizeof text, &n));
    CHECK(out == 0);
    FORKED_TEXT(s_namespace_info(ns, text, sizeof text, &n));
    FORKED_TEXT(s_bump_epoch(ns, 0, &out, text, sizeof text));
    CHECK(out == 0);
    FORKED(s_close_namespace(ns));
    FORKED_TEXT(s_register_region(store, bytes, sizeof bytes, -1, &out, text, sizeof text));
    CHECK(out == 0);
    FORKED(s_unregister_region(store, 1));
    FORKED(s_submit(store, ns, SEALSTONE_OP_GET, &item, 1, NULL, &out));
    n = 1;
    FORKED(s_drain(store, &done, 1, &r, 1, &n, NULL));
    CHECK(n == 0);
    FORKED(s_event_fd(store, &fd));
    FORKED_TEXT(s_reason(store, 1, 0, text, sizeof text));
    FORKED(s_wait_idle(store, 0));
    FORKED(s_lookup_now(ns, hash, sizeof hash, 1, &st));
    FORKED_TEXT(s_match(ns, hash, sizeof hash, 1, 0, &n, &out, text, sizeof text));
    CHECK(n == 0 && out == 0);
    FORKED(s_renew(1));
    FORKED(s_release(1));
    FORKED_TEXT(s_close(store, 0, text, sizeof text));
    CHECK(s_abi_version() == SEALSTONE_ABI_VERSION && strlen(s_version()) > 0);
    CHECK(strcmp(s_status_name(SEALSTONE_FORKED), "Forked") == 0);
}

static void test_fork(const char *options) {
    int gate[2];
    char byte;
    open_store(options);
    CHECK(run(SEALSTONE_OP_PUT) == SEALSTONE_OK && locks_open() > 0);
    CHECK(pipe(gate) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        in_child();
        CHECK(locks_open() == 0);
        close(gate[1]);
        CHECK(read(gate[0], &byte, 1) == 0); /* lives until the parent is through */
        _exit(0);
    }
    /* A child that fork() did not make, whose handlers have not run. */
    pid_t bare = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (bare == 0) {
        sealstone_status st = s_wait_idle(store, 0);
        _exit(st == SEALSTONE_FORKED ? 0 : 1);
    }
    int status;
    CHECK(bare > 0 && waitpid(bare, &status, 0) == bare && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* The parent goes on; and once it closed the store, the child that lives on
     * does not keep the directory locked. */
    CHECK(run(SEALSTONE_OP_GET) == SEALSTONE_OK);
    CHECK(s_close(store, 0, NULL, 0) == SEALSTONE_OK);
    open_store(options);
    CHECK(run(SEALSTONE_OP_GET) == SEALSTONE_OK);
    CHECK(s_close(store, 0, NULL, 0) == SEALSTONE_OK);
    close(gate[1]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- signals */

static volatile sig_atomic_t terms, pipes;
static sigjmp_buf back;

static void on_term(int sig) { (void)sig, terms++; }
static void on_pipe(int sig) { (void)sig, pipes++; }
static void on_segv(int sig, siginfo_t *info, void *ctx) {
    (void)sig, (void)info, (void)ctx;
    siglongjmp(back, 1);
}

static void set(int sig, void (*plain)(int), void (*full)(int, siginfo_t *, void *), int flags) {
    struct sigaction a;
    memset(&a, 0, sizeof a);
    if (full != NULL) a.sa_sigaction = full, a.sa_flags = SA_SIGINFO | flags;
    else a.sa_handler = plain, a.sa_flags = flags;
    CHECK(sigaction(sig, &a, NULL) == 0);
}

static void fault(void) {
    volatile int *p = NULL;
    if (sigsetjmp(back, 1) == 0) {
        *p = 1;
        CHECK(!"a write to NULL went through");
    }
}

static void broken_pipe(void) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    close(fds[0]);
    CHECK(write(fds[1], "x", 1) == -1 && errno == EPIPE);
    close(fds[1]);
}

static void host_handlers_work(void) {
    int before = terms;
    CHECK(raise(SIGTERM) == 0 && kill(getpid(), SIGTERM) == 0);
    CHECK(terms == before + 2);
    before = pipes;
    broken_pipe();
    CHECK(pipes == before + 1);
    fault();
}

static void *in_thread(void *arg) {
    (void)arg;
    fault();
    broken_pipe();
    return NULL;
}

static void test_signals(const char *path, const char *options) {
    struct sigaction before[NSIG], after;
    set(SIGTERM, on_term, NULL, 0);
    set(SIGPIPE, on_pipe, NULL, 0);
    set(SIGSEGV, NULL, on_segv, SA_ONSTACK);
    signal(SIGUSR1, SIG_IGN);
    for (int sig = 1; sig < NSIG; sig++) (void)sigaction(sig, NULL, &before[sig]);
    load(path);
    open_store(options);
    CHECK(run(SEALSTONE_OP_PUT) == SEALSTONE_OK);
    /* Go takes these for itself and hands on what is not its own; all others are
     * the host's as before, but for SA_ONSTACK on its handlers. */
    for (int sig = 1; sig < NSIG; sig++) {
        if (sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGPIPE || sig == SIGURG) continue;
        if (sigaction(sig, NULL, &after) != 0) continue;
        if (after.sa_handler != before[sig].sa_handler || (after.sa_flags & ~SA_ONSTACK) != (before[sig].sa_flags & ~SA_ONSTACK)) {
            fprintf(stderr, "the disposition of signal %d was changed\n", sig);
            _exit(1);
        }
    }
    host_handlers_work();
    pthread_t t;
    CHECK(pthread_create(&t, NULL, in_thread, NULL) == 0 && pthread_join(t, NULL) == 0);
    CHECK(run(SEALSTONE_OP_GET) == SEALSTONE_OK);
    set(SIGTERM, on_term, NULL, SA_ONSTACK); /* set after the library was loaded */
    set(SIGPIPE, on_pipe, NULL, SA_ONSTACK);
    set(SIGSEGV, NULL, on_segv, SA_ONSTACK);
    host_handlers_work();
    CHECK(run(SEALSTONE_OP_GET) == SEALSTONE_OK);
    CHECK(s_close(store, 0, NULL, 0) == SEALSTONE_OK);
}

/* With no handler of its own the host dies of what it would die of. */
static void test_defaults(const char *path, const char *options, int sig) {
    load(path);
    open_store(options);
    if (sig == SIGPIPE) broken_pipe();
    else if (sig == SIGSEGV) *(volatile int *)NULL = 1;
    else raise(sig);
    _exit(0); /* not reached */
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *what = argv[1], *path = argv[2], *options = argv[3];
    if (strcmp(what, "fork") == 0) {
        void *lib = load(path);
        test_fork(options);
        CHECK(dlclose(lib) == 0 && s_abi_version() == SEALSTONE_ABI_VERSION); /* it stays */
    } else if (strcmp(what, "signals") == 0) {
        test_signals(path, options);
    } else {
        test_defaults(path, options, atoi(what));
    }
    return 0;
}
