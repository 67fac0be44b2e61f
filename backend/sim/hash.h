// Hashing for the fake model: fixed functions, so that the same step gives the same tokens on every machine.
#pragma once

#include <cstdint>

namespace twostroke::sim {

// The output function of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
inline uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Depends on both and on their order.
inline uint64_t mix(uint64_t a, uint64_t b) { return scramble(a ^ scramble(b + 0x9e3779b97f4a7c15U)); }

// Uniform in [0, bound). The bias of a multiplication instead of a division is below bound / 2^32.
inline uint32_t bounded(uint64_t x, uint32_t bound) { return static_cast<uint32_t>(((x >> 32) * bound) >> 32); }

// Uniform in [0, 1), of 53 bits.
inline double unit(uint64_t x) { return static_cast<double>(x >> 11) * 0x1p-53; }

}  // namespace twostroke::sim
