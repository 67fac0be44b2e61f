// Random numbers that are a pure function of what they are for.
//
// A counter-based generator has no state to carry: the draw for position p of a sequence depends on (seed, p) alone, so
// a sequence draws the same numbers whatever it is batched with, and again after preemption.
//
// The generator is Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011, doi:10.1145/2063384.2063405. Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>

namespace twostroke {

// One block of Philox4x32-10: four words for each pair of counter and key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in [0, 1), a multiple of 2^-53: the draw for `position` of a sequence whose seed is `seed`.
double uniform_draw(uint64_t seed, uint64_t position);

}  // namespace twostroke
