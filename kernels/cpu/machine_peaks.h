// MachinePeaks: what this machine's processors and memory do at most, measured, so that utilisation can be given as a
// share of it. A roofline's two ceilings (Williams, Waterman, Patterson: Roofline, CACM 2009).
//
//   flops             multiply-adds of the operator set's instructions, on all threads of the pool at once, counted as
//                     two; the best of a few runs of milliseconds. Of floats, or of the bytes that coded weights and
//                     quantised activations are multiplied as, which there are two to six times as many of
//   bytes_per_second  a stream of reads by all threads through a buffer that the last-level cache does not hold, the
//                     best of a few passes
//
// Takes some tens of milliseconds for the first, and for the second as long as it takes to fill the buffer and read it
// a few times: below half a second together on a machine of today. Measured while something else runs, they come out
// too low, and utilisation too high. A model that fits into the last-level cache may read faster than memory can.
#pragma once

#include <cstddef>

#include "kernels/activations.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/isa.h"

namespace twostroke {

struct MachinePeaks {
  double flops = 0;             // per second
  double bytes_per_second = 0;  // 0: the buffer could not be had
};

// What the last-level cache does not hold: a quarter more than its size, in [kPeakBufferMin, kPeakBufferMax]. No more,
// because memory that the operating system has to find first is filled at a gigabyte per second or less; and who has a
// larger cache shares it with many cores and, often, other machines.
inline constexpr size_t kPeakBufferMin = size_t{64} << 20;
inline constexpr size_t kPeakBufferMax = size_t{256} << 20;
size_t peak_buffer_bytes();

// `buffer_bytes`, at least 1 MiB, are taken from `device` and given back. `isa` must be supported.
MachinePeaks measure_peaks(CpuDevice& device, Isa isa, ActivationType arithmetic, size_t buffer_bytes);

// The loops that are timed. Of floats: x = x * factor + addend, `rounds` times in each of multiply_adds_per_round(isa)
// independent sums. Returns their total.
double multiply_add(Isa isa, int64_t rounds, float factor, float addend);
int64_t multiply_adds_per_round(Isa isa);

// Of bytes: sum += code * input, `rounds` times in each of int8_multiply_adds_per_round(isa) products, codes in [0,
// 15], inputs in [-127, 127]. Returns the total of the sums, which have 16 bits, or more, and may wrap around. The
// scalar set has no such instructions (0 per round): it multiplies floats.
int64_t int8_multiply_add(Isa isa, int64_t rounds, int code, int input);
int64_t int8_multiply_adds_per_round(Isa isa);

}  // namespace twostroke
