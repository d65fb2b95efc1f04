// Runs the source of the verify kernel on the CPU for cputest_test.go: the same
// thread functions in a loop over their numbers, under the sanitizers, so that
// a word read at an unaligned address and a read beyond a piece end the
// program. It speaks little endian over standard input and output:
//
//   in:  u32 arena bytes, u32 pieces, u32 1 to run the threads backwards, arena,
//        then per piece: u32 offset in the arena, u32 length, u64 wanted sum
//   out: per piece: u64 sum, u32 status
//
// and again until the input ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "verify.cu"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
static void allowOnly(const std::vector<Piece>& pieces, const u8* arena, size_t n) {
  ASAN_POISON_MEMORY_REGION(arena, n);
  for (const Piece& p : pieces) ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<u8*>(p.address), p.length);
}
static void allowAll(const u8* arena, size_t n) { ASAN_UNPOISON_MEMORY_REGION(arena, n); }
#else
static void allowOnly(const std::vector<Piece>&, const u8*, size_t) {}
static void allowAll(const u8*, size_t) {}
#endif

static constexpr u32 kThreadsPerBlock = 128;
static constexpr u32 kGuards = 8;  // words behind each result that must stay as they are
static constexpr u64 kPoison = 0xA5A5A5A5A5A5A5A5ULL;

[[noreturn]] static void fail(const char* what) {
  fprintf(stderr, "cputest: %s\n", what);
  exit(1);
}

static bool read(void* p, size_t n) { return fread(p, 1, n, stdin) == n; }
static void mustRead(void* p, size_t n) {
  if (!read(p, n)) fail("input ends within a request");
}
static void mustWrite(const void* p, size_t n) {
  if (fwrite(p, 1, n, stdout) != n) fail("cannot answer");
}

// launch calls the thread function for every number of a grid that covers
// threads, as a GPU does, which starts whole blocks.
template <class Thread>
static void launch(u32 threads, bool backwards, Thread thread) {
  u32 all = (threads + kThreadsPerBlock - 1) / kThreadsPerBlock * kThreadsPerBlock;
  for (u32 i = 0; i < all; i++) thread(backwards ? all - 1 - i : i);
}

template <class T>
static void checkGuards(const std::vector<T>& v, size_t used, const char* what) {
  for (size_t i = used; i < v.size(); i++)
    if (v[i] != static_cast<T>(kPoison)) fail(what);
}

static void serve(u32 arenaBytes, u32 count, bool backwards) {
  u8* arena = static_cast<u8*>(aligned_alloc(64, (arenaBytes + 63) / 64 * 64 + 64));
  mustRead(arena, arenaBytes);
  std::vector<Piece> pieces(count);
  for (Piece& p : pieces) {
    u32 at[2];
    mustRead(at, sizeof at);
    mustRead(&p.want, sizeof p.want);
    if (at[0] > arenaBytes || at[1] > arenaBytes - at[0]) fail("a piece outside the arena");
    p.address = reinterpret_cast<u64>(arena) + at[0];
    p.length = at[1];
    p.reserved = 0;
  }
  std::vector<u64> accumulators(static_cast<size_t>(count) * kLanes + kGuards, kPoison);
  std::vector<u64> got(count + kGuards, kPoison);
  std::vector<u32> status(count + kGuards, static_cast<u32>(kPoison));
  Job job = {pieces.data(), accumulators.data(), got.data(), status.data(), count, 0};

  allowOnly(pieces, arena, arenaBytes);
  launch(count * kLanes, backwards, [&](u32 t) { lanesThread(job, t); });
  launch(count, backwards, [&](u32 t) { finishThread(job, t); });
  allowAll(arena, arenaBytes);

  checkGuards(accumulators, static_cast<size_t>(count) * kLanes, "wrote beyond the accumulators");
  checkGuards(got, count, "wrote beyond the sums");
  checkGuards(status, count, "wrote beyond the status words");
  for (u32 p = 0; p < count; p++) {
    mustWrite(&got[p], sizeof got[p]);
    mustWrite(&status[p], sizeof status[p]);
  }
  fflush(stdout);
  free(arena);
}

int main() {
  u32 head[3];
  while (read(head, sizeof head)) serve(head[0], head[1], head[2] == 1);
  return 0;
}
