/* Streams and events. Work is queued and done by one worker thread, in the order
 * of each stream and in any order between them, after a random pause: whoever
 * does not wait for its event is late or early as on a real device. */
#define FAKE_CUDA
#include "core.h"

enum { INVALID_VALUE = 1, INVALID_HANDLE = 400, NOT_READY = 600 };

struct event {
	struct context *ctx;
	struct stream *stream; /* NULL: it marks nothing */
	uint64_t seq;
	bool destroyed;
	struct event *next;
};

static struct stream *streams;
static struct event *events;
static bool worker_running, closing;
static unsigned seed = 1;

/* ---- queues; all with the lock ---- */

/* Says whether the head of a queue may run. */
static bool eligible(struct stream *s) {
	struct op *op = s->head;
	if (!op) return false;
	if (op->hit.kind == K_STUCK && op->release == core.released) return false;
	return op->work != W_WAIT || op->other->completed >= op->other_seq;
}

/* Runs or skips the head and takes it off. */
static void finish_head(struct stream *s, bool run) {
	struct op *op = s->head;
	if (run) op_run(s, op);
	if (s->head != op) return; /* running it killed the context, which emptied the queue */
	s->head = op->next;
	if (!s->head) s->tail = NULL;
	s->completed++;
	free(op);
	pthread_cond_broadcast(&core.changed);
}

/* One of the eligible streams, by chance. */
static struct stream *pick(void) {
	struct stream *chosen = NULL;
	unsigned n = 0;
	for (struct stream *s = streams; s; s = s->next)
		if (eligible(s) && (unsigned)rand_r(&seed) % ++n == 0) chosen = s;
	return chosen;
}

static void *worker(void *unused) {
	(void)unused;
	core_lock();
	while (!closing) {
		struct stream *s = pick();
		if (!s) {
			pthread_cond_wait(&core.changed, &core.lock);
			continue;
		}
		int pause = core.set.delay_us ? rand_r(&seed) % core.set.delay_us : 0;
		struct op *op = s->head;
		if (pause) {
			core_unlock();
			usleep((useconds_t)pause);
			core_lock();
		}
		if (s->head == op && eligible(s)) finish_head(s, true);
	}
	worker_running = false;
	core_unlock();
	return NULL;
}

static void start_worker(void) {
	if (worker_running || closing) return;
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	worker_running = pthread_create(&thread, &attr, worker, NULL) == 0;
	pthread_attr_destroy(&attr);
}

void stream_close(void) {
	closing = true;
	core.released++;
	pthread_cond_broadcast(&core.changed);
}

/* Queues work, or does it at once where nothing is to be asynchronous. */
void stream_put(struct stream *s, struct op *op) {
	op->release = core.released;
	s->submitted++;
	if (s->tail) s->tail->next = op;
	else s->head = op;
	s->tail = op;
	if (core.set.async || closing) {
		start_worker();
		pthread_cond_broadcast(&core.changed);
		return;
	}
	while (s->head && eligible(s)) finish_head(s, true);
	if (s->head) start_worker(); /* something is stuck: it ends later */
}

/* Drops all work of a context. */
void stream_drop(struct context *ctx) {
	for (struct stream *s = streams; s; s = s->next)
		while (s->ctx == ctx && s->head) finish_head(s, false);
}

static bool overlaps(const char *a, size_t an, const char *b, size_t bn) { return a && an && bn && a < b + bn && b < a + an; }

static bool op_uses(struct op *op, const char *mem, size_t n) { return overlaps(op->dst, op->n, mem, n) || overlaps(op->src, op->n, mem, n); }

/* Says whether work that is not done reads or writes the memory. */
bool stream_uses(const char *mem, size_t n) {
	for (struct stream *s = streams; s; s = s->next)
		for (struct op *op = s->head; op; op = op->next)
			if (op_uses(op, mem, n)) return true;
	return false;
}

/* Turns such work into none, as its memory goes away. */
void stream_cancel(const char *mem, size_t n) {
	for (struct stream *s = streams; s; s = s->next)
		for (struct op *op = s->head; op; op = op->next)
			if (op_uses(op, mem, n)) op->work = W_NOTHING;
}

/* Says whether what is put into s now runs after the seq-th work of other. */
static bool after(struct stream *s, struct stream *other, uint64_t seq, int depth) {
	if (s == other || other->completed >= seq) return true;
	if (!depth) return false;
	for (struct op *op = s->head; op; op = op->next)
		if (op->work == W_WAIT && ((op->other == other && op->other_seq >= seq) || after(op->other, other, seq, depth - 1))) return true;
	return false;
}

/* Looks for work of other streams that touches the same memory, with one of the
 * two writing, and that no event orders with this. Kernels name their memory
 * only when they run, and are not looked at. */
void stream_races(struct stream *s, struct op *mine, const char *who) {
	for (struct stream *other = streams; other; other = other->next) {
		uint64_t seq = other->completed;
		for (struct op *op = other->head; other != s && op; op = op->next) {
			seq++;
			bool clash = overlaps(mine->dst, mine->n, op->dst, op->n) || overlaps(mine->dst, mine->n, op->src, op->n) || overlaps(mine->src, mine->n, op->dst, op->n);
			if (!clash || after(s, other, seq, 4)) continue;
			core_violation("%s: another stream works on the same memory, and no event orders the two", who);
			return;
		}
	}
}

bool stream_idle(void) {
	for (struct stream *s = streams; s; s = s->next)
		if (s->head) return false;
	return true;
}

static struct stream *new_stream(struct context *ctx) {
	struct stream *s = calloc(1, sizeof *s);
	s->ctx = ctx;
	s->next = streams;
	streams = s; /* never freed: a stale handle must be recognised */
	return s;
}

/* The stream behind a handle in a context, or NULL. */
struct stream *stream_of(struct context *ctx, void *handle) {
	if (!handle) {
		if (!ctx->legacy) ctx->legacy = new_stream(ctx);
		return ctx->legacy;
	}
	for (struct stream *s = streams; s; s = s->next)
		if (s == handle) {
			if (s->ctx == ctx && !s->destroyed) return s;
			core_violation(s->destroyed ? "use of a destroyed stream" : "use of a stream of device %d in the context of device %d", s->ctx->device, ctx->device);
			return NULL;
		}
	core_violation("use of something that is no stream");
	return NULL;
}

/* ---- the calls ---- */

#define BEGIN(name) \
	struct context *ctx; \
	struct hit h; \
	int code = call_begin(CALL_##name, &ctx, &h); \
	if (code) return code
#define DONE(...) \
	do { \
		int result_ = (__VA_ARGS__); \
		core_unlock(); \
		return result_; \
	} while (0)
#define STREAM(handle) \
	struct stream *s = stream_of(ctx, handle); \
	if (!s) DONE(INVALID_HANDLE)
#define EVENT(handle) \
	struct event *e = event_of(ctx, handle); \
	if (!e) DONE(INVALID_HANDLE)

int cuStreamCreate(void **out, unsigned flags) {
	BEGIN(cuStreamCreate);
	if (flags & ~1u) DONE(INVALID_VALUE);
	*out = new_stream(ctx);
	DONE(0);
}

int cuStreamDestroy_v2(void *handle) {
	BEGIN(cuStreamDestroy_v2);
	STREAM(handle);
	s->destroyed = true; /* its work still runs */
	DONE(0);
}

int cuStreamQuery(void *handle) {
	BEGIN(cuStreamQuery);
	STREAM(handle);
	DONE(s->completed < s->submitted ? NOT_READY : 0);
}

/* Waits with the lock until the stream got there, or its context is dead. */
static int wait_for(struct stream *s, uint64_t seq) {
	while (s->completed < seq && !s->ctx->lost) pthread_cond_wait(&core.changed, &core.lock);
	return s->ctx->lost;
}

int cuStreamSynchronize(void *handle) {
	BEGIN(cuStreamSynchronize);
	STREAM(handle);
	DONE(wait_for(s, s->submitted));
}

static struct event *event_of(struct context *ctx, void *handle) {
	for (struct event *e = events; e; e = e->next)
		if (e == handle && e->ctx == ctx && !e->destroyed) return e;
	core_violation("use of something that is no event of device %d", ctx->device);
	return NULL;
}

int cuEventCreate(void **out, unsigned flags) {
	BEGIN(cuEventCreate);
	if (flags & ~7u) DONE(INVALID_VALUE);
	struct event *e = calloc(1, sizeof *e);
	e->ctx = ctx;
	e->next = events;
	events = e;
	*out = e;
	DONE(0);
}

int cuEventDestroy_v2(void *handle) {
	BEGIN(cuEventDestroy_v2);
	EVENT(handle);
	e->destroyed = true;
	DONE(0);
}

int cuEventRecord(void *handle, void *stream) {
	BEGIN(cuEventRecord);
	EVENT(handle);
	STREAM(stream);
	struct op *op = calloc(1, sizeof *op);
	op->work = W_MARK;
	stream_put(s, op);
	e->stream = s;
	e->seq = s->submitted;
	DONE(0);
}

int cuEventQuery(void *handle) {
	BEGIN(cuEventQuery);
	EVENT(handle);
	DONE(e->stream && e->stream->completed < e->seq ? NOT_READY : 0);
}

int cuEventSynchronize(void *handle) {
	BEGIN(cuEventSynchronize);
	EVENT(handle);
	DONE(e->stream ? wait_for(e->stream, e->seq) : 0);
}

int cuStreamWaitEvent(void *stream, void *handle, unsigned flags) {
	BEGIN(cuStreamWaitEvent);
	STREAM(stream);
	EVENT(handle);
	if (flags) DONE(INVALID_VALUE);
	if (!e->stream || e->stream == s) DONE(0);
	struct op *op = calloc(1, sizeof *op);
	op->work = W_WAIT;
	op->other = e->stream;
	op->other_seq = e->seq;
	stream_put(s, op);
	DONE(0);
}

void stream_leaks(void (*add)(const char *format, ...)) {
	for (struct stream *s = streams; s; s = s->next)
		if (!s->destroyed && s->ctx->legacy != s && s->ctx->references && !s->ctx->lost) add("device %d: a stream\n", s->ctx->device);
	for (struct event *e = events; e; e = e->next)
		if (!e->destroyed && e->ctx->references && !e->ctx->lost) add("device %d: an event\n", e->ctx->device);
}
