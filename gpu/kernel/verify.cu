// The verify kernel. doc.go has its contract; generate.sh makes verify.ptx of
// this file, and the test on the CPU compiles it as C++.
#include "xxh64.cuh"

struct Piece {
  u64 address;
  u32 length;
  u32 reserved;
  u64 want;
};

struct Job {
  const Piece* pieces;
  u64* accumulators;
  u64* got;
  u32* status;
  u32 count;
  u32 reserved;
};

#define AT(type, field, offset) static_assert(__builtin_offsetof(type, field) == offset, #type "." #field)
AT(Piece, address, 0);
AT(Piece, length, 8);
AT(Piece, want, 16);
static_assert(sizeof(Piece) == 24, "PieceBytes in layout.go");
AT(Job, pieces, 0);
AT(Job, accumulators, 8);
AT(Job, got, 16);
AT(Job, status, 24);
AT(Job, count, 32);
static_assert(sizeof(Job) == 40, "ParamBytes in layout.go");

static constexpr u32 kMatch = 1;
static constexpr u32 kMismatch = 2;

// lanesThread is thread t of the first entry point.
DEVICE void lanesThread(const Job& job, u32 t) {
  u32 p = t / kLanes;
  if (p >= job.count) return;
  u32 lane = t % kLanes;
  u32 length = job.pieces[p].length;
  const u8* data = reinterpret_cast<const u8*>(job.pieces[p].address);
  bool aligned = job.pieces[p].address % 8 == 0;
  job.accumulators[t] = aligned ? laneSum<ByWords>(data, length, lane) : laneSum<ByBytes>(data, length, lane);
}

// finishThread is thread p of the second entry point.
DEVICE void finishThread(const Job& job, u32 p) {
  if (p >= job.count) return;
  const Piece& piece = job.pieces[p];
  const u8* data = reinterpret_cast<const u8*>(piece.address);
  u64 sum = finishSum(job.accumulators + static_cast<u64>(p) * kLanes, data, piece.length);
  job.got[p] = sum;
  job.status[p] = sum == piece.want ? kMatch : kMismatch;
}

#if defined(__CUDA__)
#define KERNEL extern "C" __attribute__((global)) void

DEVICE u32 threadNumber() {
  return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}

KERNEL kv_xxh64_lanes(Job job) { lanesThread(job, threadNumber()); }

KERNEL kv_xxh64_finish(Job job) { finishThread(job, threadNumber()); }
#endif
