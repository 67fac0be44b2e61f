#include "kernels/cpu/machine_peaks.h"

#include <emmintrin.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/cpu/vector_kernels.h"

namespace twostroke {
namespace {

constexpr TimeNs kRunNs = 4'000'000;  // of arithmetic: long against waking a worker, short against a time slice
constexpr int kRuns = 8;
constexpr int64_t kRoundsMax = int64_t{1} << 23;  // floats count exactly that far
constexpr TimeNs kPassesNs = 200'000'000;         // no further pass over the buffer is begun after this
constexpr int kPassesMin = 2;
constexpr int kPassesMax = 8;
constexpr size_t kSliceBytes = size_t{1} << 20;

// As the compiler makes it from plain C++, like the scalar operators.
constexpr int kScalarSums = 8;
double multiply_add_scalar(int64_t rounds, double factor, double addend) {
  double sums[kScalarSums];
  for (int i = 0; i < kScalarSums; ++i) sums[i] = i;
  for (int64_t round = 0; round < rounds; ++round) {
    for (double& sum : sums) sum = sum * factor + addend;
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// nullptr for the scalar set.
const VectorKernels* kernels_of(Isa isa) {
  CHECK(isa_supported(isa), "this processor lacks the instruction set");
  if (isa == Isa::kAmx) return amx_kernels();
  if (isa == Isa::kAvx512) return avx512_kernels();
  return isa == Isa::kAvx2 ? avx2_kernels() : nullptr;
}

template <typename Body>
TimeNs time_of(Body&& body) {
  Clock& clock = steady_clock();
  const TimeNs began = clock.now();
  body();
  return std::max<TimeNs>(clock.now() - began, 1);
}

double per_second(double count, TimeNs ns) { return count * 1e9 / static_cast<double>(ns); }

double measure_flops(WorkerPool& pool, Isa isa, ActivationType arithmetic) {
  const bool int8 = arithmetic == ActivationType::kInt8 && int8_multiply_adds_per_round(isa) > 0;
  const int64_t per_round = int8 ? int8_multiply_adds_per_round(isa) : multiply_adds_per_round(isa);
  std::atomic<double> kept = 0;  // the totals: what is not used is not computed
  int64_t rounds = 1 << 12;
  const auto multiply = [&] {
    return int8 ? static_cast<double>(int8_multiply_add(isa, rounds, 1, 1)) : multiply_add(isa, rounds, 1.0F, 1.0F);
  };
  const auto run = [&] {
    return time_of([&] { pool.run(pool.threads(), [&](int64_t, int) { kept = kept + multiply(); }); });
  };
  while (rounds < kRoundsMax && run() < kRunNs) rounds *= 2;
  const double flops = 2.0 * static_cast<double>(rounds) * static_cast<double>(per_round) * pool.threads();
  double best = 0;
  for (int i = 0; i < kRuns; ++i) best = std::max(best, per_second(flops, run()));
  return best;
}

// Of `bytes`, a multiple of 64, aligned to 16.
int64_t sum_words(const char* from, size_t bytes) {
  __m128i sums[4] = {};
  for (size_t i = 0; i < bytes; i += sizeof(sums)) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      sums[j] = _mm_add_epi64(sums[j], _mm_load_si128(reinterpret_cast<const __m128i*>(from + i) + j));
    }
  }
  const __m128i total = _mm_add_epi64(_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3]));
  return _mm_cvtsi128_si64(_mm_add_epi64(total, _mm_unpackhi_epi64(total, total)));
}

double measure_reads(CpuDevice& device, size_t bytes) {
  const Result<DeviceMemory> buffer = device.allocate(bytes);
  if (!buffer.ok()) return 0;
  char* const memory = reinterpret_cast<char*>(buffer->address().value);
  const auto slices = static_cast<int64_t>(bytes / kSliceBytes);
  WorkerPool& pool = device.pool();
  // Written first: pages that nobody wrote to are all the same page of zeros.
  pool.run(slices, [&](int64_t slice, int) { std::memset(memory + slice * kSliceBytes, 1, kSliceBytes); });
  std::atomic<int64_t> kept = 0;
  double best = 0;
  TimeNs spent = 0;
  for (int pass = 0; pass < kPassesMax && (pass < kPassesMin || spent < kPassesNs); ++pass) {
    const TimeNs time = time_of([&] {
      pool.run(slices, [&](int64_t slice, int) { kept += sum_words(memory + slice * kSliceBytes, kSliceBytes); });
    });
    spent += time;
    best = std::max(best, per_second(static_cast<double>(slices * kSliceBytes), time));
  }
  return best;
}

}  // namespace

double multiply_add(Isa isa, int64_t rounds, float factor, float addend) {
  if (const VectorKernels* kernels = kernels_of(isa)) return kernels->multiply_add(rounds, factor, addend);
  return multiply_add_scalar(rounds, static_cast<double>(factor), static_cast<double>(addend));
}

int64_t multiply_adds_per_round(Isa isa) {
  const VectorKernels* kernels = kernels_of(isa);
  return kernels != nullptr ? kernels->multiply_adds_per_round : kScalarSums;
}

int64_t int8_multiply_add(Isa isa, int64_t rounds, int code, int input) {
  const VectorKernels* kernels = kernels_of(isa);
  return kernels != nullptr ? kernels->int8_multiply_add(rounds, code, input) : 0;
}

int64_t int8_multiply_adds_per_round(Isa isa) {
  const VectorKernels* kernels = kernels_of(isa);
  return kernels != nullptr ? kernels->int8_multiply_adds_per_round : 0;
}

size_t peak_buffer_bytes() {
  const long cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));  // 0, -1: not known
  const size_t beyond = cache > 0 ? static_cast<size_t>(cache) / 4 * 5 : 0;
  return std::clamp(beyond, kPeakBufferMin, kPeakBufferMax);
}

MachinePeaks measure_peaks(CpuDevice& device, Isa isa, ActivationType arithmetic, size_t buffer_bytes) {
  CHECK(buffer_bytes >= kSliceBytes, "a buffer must hold a slice");
  return {.flops = measure_flops(device.pool(), isa, arithmetic),
          .bytes_per_second = measure_reads(device, buffer_bytes)};
}

}  // namespace twostroke
