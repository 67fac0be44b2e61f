// Random: numbers that follow from a seed and are the same on every machine (the standard library's distributions are
// not). Thread-safety: one thread.
#pragma once

#include <cmath>
#include <cstdint>

namespace twostroke::simulate {

// The output function of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
constexpr uint64_t mix_bits(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// A seed of its own for each pair.
constexpr uint64_t derive_seed(uint64_t seed, uint64_t index) {
  return mix_bits(mix_bits(seed + 0x9e3779b97f4a7c15u) ^ (index * 0xd1342543de82ef95u + 1));
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix_bits(seed + 0x9e3779b97f4a7c15u)) {}
  uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15u); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)
  double exponential(double mean) { return -mean * std::log1p(-unit()); }
  double normal() {  // Box and Muller, 1958; one of the pair
    const double radius = std::sqrt(-2 * std::log1p(-unit()));
    return radius * std::cos(2 * 3.14159265358979323846 * unit());
  }

 private:
  uint64_t state_;
};

}  // namespace twostroke::simulate
