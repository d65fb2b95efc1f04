// XXH64 with seed 0, cut so that each of its four accumulators can be a thread.
// The algorithm is https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
//
// One source for three compilers: clang for the GPU, g++ and clang++ for the
// test on the CPU. It includes nothing that a GPU compiler without the CUDA
// toolkit lacks.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
static_assert(sizeof(u8) == 1 && sizeof(u32) == 4 && sizeof(u64) == 8, "widths of the integers");

#if defined(__CUDA__)
#define DEVICE __attribute__((device)) static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")
#else
#define DEVICE static inline
#define UNROLL
#endif

static constexpr u64 kPrime1 = 0x9E3779B185EBCA87ULL;
static constexpr u64 kPrime2 = 0xC2B2AE3D27D4EB4FULL;
static constexpr u64 kPrime3 = 0x165667B19E3779F9ULL;
static constexpr u64 kPrime4 = 0x85EBCA77C2B2AE63ULL;
static constexpr u64 kPrime5 = 0x27D4EB2F165667C5ULL;

static constexpr u32 kLanes = 4;
static constexpr u32 kStripe = 8 * kLanes;  // bytes that the lanes take in together

// kAhead is how many words a lane loads before it mixes the first of them. The
// mixing is one serial chain, so only loads that are already on their way hide
// the latency of memory.
static constexpr u32 kAhead = 16;

DEVICE u64 rotateLeft(u64 x, int bits) { return (x << bits) | (x >> (64 - bits)); }

DEVICE u64 mixRound(u64 acc, u64 word) { return rotateLeft(acc + word * kPrime2, 31) * kPrime1; }

DEVICE u64 mergeRound(u64 h, u64 acc) { return (h ^ mixRound(0, acc)) * kPrime1 + kPrime4; }

// A reader loads little-endian words. The first may only be used at addresses
// that are multiples of 8: a GPU faults on others.
struct ByWords {
  DEVICE u64 load(const u8* p) { return *reinterpret_cast<const u64*>(p); }
};

struct ByBytes {
  DEVICE u64 load(const u8* p) {
    u64 word = 0;
    UNROLL
    for (int i = 0; i < 8; i++) word |= static_cast<u64>(p[i]) << (8 * i);
    return word;
  }
};

DEVICE u64 laneStart(u32 lane) {
  switch (lane) {
    case 0: return kPrime1 + kPrime2;
    case 1: return kPrime2;
    case 2: return 0;
    default: return 0 - kPrime1;
  }
}

// laneSum runs one lane over its words of the whole stripes of the n bytes at p.
template <class Reader>
DEVICE u64 laneSum(const u8* p, u32 n, u32 lane) {
  u64 acc = laneStart(lane);
  u32 stripes = n / kStripe;
  p += 8 * lane;
  for (; stripes >= kAhead; stripes -= kAhead) {
    u64 word[kAhead];
    UNROLL
    for (u32 i = 0; i < kAhead; i++) word[i] = Reader::load(p + i * kStripe);
    UNROLL
    for (u32 i = 0; i < kAhead; i++) acc = mixRound(acc, word[i]);
    p += kAhead * kStripe;
  }
  for (; stripes > 0; stripes--, p += kStripe) acc = mixRound(acc, Reader::load(p));
  return acc;
}

// finishSum merges the four accumulators at acc and takes in the bytes of the
// n at p that fill no stripe. They are fewer than 32, so they are read byte by
// byte at any alignment.
DEVICE u64 finishSum(const u64* acc, const u8* p, u32 n) {
  u64 h = kPrime5;
  if (n >= kStripe) {
    h = rotateLeft(acc[0], 1) + rotateLeft(acc[1], 7) + rotateLeft(acc[2], 12) + rotateLeft(acc[3], 18);
    for (u32 lane = 0; lane < kLanes; lane++) h = mergeRound(h, acc[lane]);
  }
  h += n;
  u32 left = n % kStripe;
  p += n - left;
  for (; left >= 8; left -= 8, p += 8) h = rotateLeft(h ^ mixRound(0, ByBytes::load(p)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    u64 half = 0;
    for (int i = 0; i < 4; i++) half |= static_cast<u64>(p[i]) << (8 * i);
    h = rotateLeft(h ^ (half * kPrime1), 23) * kPrime2 + kPrime3;
    left -= 4;
    p += 4;
  }
  for (; left > 0; left--, p++) h = rotateLeft(h ^ (*p * kPrime5), 11) * kPrime1;
  h = (h ^ (h >> 33)) * kPrime2;
  h = (h ^ (h >> 29)) * kPrime3;
  return h ^ (h >> 32);
}
