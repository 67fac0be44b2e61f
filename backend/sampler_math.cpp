#include "backend/sampler_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kPart = 2048;  // logits among which the greatest is looked for once it is known to be there
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kExponentMin = -88;  // -127 ln 2, rounded: exponential() gives 0 for it

using Floats = float [[gnu::vector_size(kLanes * sizeof(float))]];
using Integers = int32_t [[gnu::vector_size(kLanes * sizeof(int32_t))]];
using Doubles = double [[gnu::vector_size(kLanes * sizeof(double))]];

// What follows is inlined into two functions each: one for any processor and one for those with AVX2. Both do the same
// operations on the same numbers in the same order.

// kLanes numbers from `begin` on, with `beyond` in the place of those that are not there.
[[gnu::always_inline]] inline void load(Floats& out, std::span<const float> from, size_t begin, float beyond = 0) {
  if (begin + kLanes <= from.size()) {
    std::memcpy(&out, from.data() + begin, sizeof out);
  } else {
    for (size_t lane = 0; lane < kLanes; ++lane) out[lane] = begin + lane < from.size() ? from[begin + lane] : beyond;
  }
}
[[gnu::always_inline]] inline void store(std::span<float> to, size_t begin, const Floats& numbers) {
  std::memcpy(to.data() + begin, &numbers, std::min(kLanes, to.size() - begin) * sizeof(float));
}
[[gnu::always_inline]] inline bool any_lane(const Integers& lanes) {
  std::array<uint64_t, sizeof(Integers) / sizeof(uint64_t)> words;
  std::memcpy(words.data(), &lanes, sizeof lanes);
  uint64_t any = 0;
  for (const uint64_t word : words) any |= word;
  return any != 0;
}

// x = exp(x) for x in [kExponentMin, 0]: x = n ln 2 + r with |r| <= ln 2 / 2, exp(r) by its Taylor series to the
// seventh power (whose rest is below 6e-9), and 2^n put into the exponent's bits, where n = -127 makes it 0.
[[gnu::always_inline]] inline void exponentiate(Floats& x) {
  constexpr float kRound = 0x1.8p23f;  // adding and subtracting it rounds to the nearest integer
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // their sum is ln 2, n * high is exact
  const Floats shifted = x * 0x1.715476p0f + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (x - n * kLn2High) - n * kLn2Low;
  Floats series = r * (1.0f / 5040) + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r * r + r + 1.0f;
  Integers exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent - std::bit_cast<int32_t>(kRound) + 127) << 23;
  Floats power;
  std::memcpy(&power, &exponent, sizeof power);
  x = series * power;
}

struct PartGreatest {
  float logit;
  bool bad;
};

[[gnu::always_inline]] inline PartGreatest greatest_of(std::span<const float> logits) {
  constexpr size_t kChains = 4;  // of maxima, which need not wait for each other
  Floats greatest[kChains];
  Integers good[kChains];
  for (size_t c = 0; c < kChains; ++c) {
    greatest[c] = Floats{} - kInfinity;
    good[c] = Integers{} - 1;
  }
  size_t i = 0;
  const auto look = [&](size_t chain) __attribute__((always_inline)) {
    Floats x;
    load(x, logits, i, -kInfinity);
    greatest[chain] = x > greatest[chain] ? x : greatest[chain];
    good[chain] &= x < kInfinity;  // false for NaN too
    i += kLanes;
  };
  while (i + kChains * kLanes <= logits.size()) {
    for (size_t c = 0; c < kChains; ++c) look(c);
  }
  while (i < logits.size()) look(0);
  PartGreatest part = {-kInfinity, false};
  for (size_t c = 0; c < kChains; ++c) {
    for (size_t lane = 0; lane < kLanes; ++lane) part.logit = std::max(part.logit, greatest[c][lane]);
    part.bad |= any_lane(~good[c]);
  }
  return part;
}

[[gnu::always_inline]] inline double span_weights(std::span<const float> logits, float greatest, float scale,
                                                  float least, std::span<float> weights) {
  Doubles sums = {};
  for (size_t i = 0; i < logits.size(); i += kLanes) {
    Floats x;
    load(x, logits, i, -kInfinity);
    x = (x - greatest) * scale;
    x = x > kExponentMin ? x : Floats{} + kExponentMin;
    exponentiate(x);
    x = x < least ? Floats{} : x;
    store(weights, i, x);
    sums += __builtin_convertvector(x, Doubles);
  }
  double sum = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

[[gnu::always_inline]] inline size_t first_at_least(std::span<const float> numbers, size_t begin, float bound) {
  size_t i = begin;
  for (; i + 4 * kLanes <= numbers.size(); i += 4 * kLanes) {
    Floats x[4];
    for (size_t part = 0; part < 4; ++part) load(x[part], numbers, i + part * kLanes);
    if (any_lane((x[0] >= bound) | (x[1] >= bound) | (x[2] >= bound) | (x[3] >= bound))) break;
  }
  while (i < numbers.size() && !(numbers[i] >= bound)) ++i;
  return i;
}

[[gnu::always_inline]] inline size_t above(std::span<const float> numbers, float bound) {
  Integers counts = {};
  for (size_t i = 0; i < numbers.size(); i += kLanes) {
    Floats x;
    load(x, numbers, i, -kInfinity);
    counts -= x > bound;  // true is -1
  }
  size_t count = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) count += static_cast<size_t>(counts[lane]);
  return count;
}

[[gnu::always_inline]] inline void masked(std::span<const float> logits, std::span<const uint32_t> mask,
                                          std::span<float> out) {
  const Integers bits = {1, 2, 4, 8, 16, 32, 64, 128};
  for (size_t i = 0; i < logits.size(); i += kLanes) {
    Floats x;
    load(x, logits, i);
    const auto allowed = static_cast<int32_t>(mask[i / 32] >> (i % 32));
    store(out, i, (bits & allowed) != 0 ? x : Floats{} - kInfinity);
  }
}

PartGreatest greatest_anywhere(std::span<const float> logits) { return greatest_of(logits); }
[[gnu::target("avx2")]] PartGreatest greatest_with_avx2(std::span<const float> logits) { return greatest_of(logits); }

double weights_anywhere(std::span<const float> logits, float greatest, float scale, float least,
                        std::span<float> weights) {
  return span_weights(logits, greatest, scale, least, weights);
}
[[gnu::target("avx2")]] double weights_with_avx2(std::span<const float> logits, float greatest, float scale,
                                                 float least, std::span<float> weights) {
  return span_weights(logits, greatest, scale, least, weights);
}

size_t first_anywhere(std::span<const float> numbers, size_t begin, float bound) {
  return first_at_least(numbers, begin, bound);
}
[[gnu::target("avx2")]] size_t first_with_avx2(std::span<const float> numbers, size_t begin, float bound) {
  return first_at_least(numbers, begin, bound);
}

size_t above_anywhere(std::span<const float> numbers, float bound) { return above(numbers, bound); }
[[gnu::target("avx2")]] size_t above_with_avx2(std::span<const float> numbers, float bound) {
  return above(numbers, bound);
}

void masked_anywhere(std::span<const float> logits, std::span<const uint32_t> mask, std::span<float> out) {
  masked(logits, mask, out);
}
[[gnu::target("avx2")]] void masked_with_avx2(std::span<const float> logits, std::span<const uint32_t> mask,
                                              std::span<float> out) {
  masked(logits, mask, out);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

}  // namespace

Greatest find_greatest(std::span<const float> logits) {
  CHECK(!logits.empty());
  const auto greatest_in = has_avx2() ? greatest_with_avx2 : greatest_anywhere;
  Greatest found;
  found.logit = -kInfinity;
  std::span<const float> best;  // the first part with the greatest logit
  for (size_t begin = 0; begin < logits.size(); begin += kPart) {
    const std::span<const float> part = logits.subspan(begin, std::min(kPart, logits.size() - begin));
    const PartGreatest greatest = greatest_in(part);
    found.bad |= greatest.bad;
    if (greatest.logit > found.logit) {
      found.logit = greatest.logit;
      best = part;
    }
  }
  if (!best.empty()) {
    const auto place = std::find(best.begin(), best.end(), found.logit) - best.begin();
    found.token = static_cast<TokenId>(best.data() - logits.data() + place);
  }
  return found;
}

double fill_weights(std::span<const float> logits, float greatest, float temperature, float least,
                    std::span<float> weights, std::span<double> span_sums) {
  CHECK(weights.size() == logits.size() && span_sums.size() == weight_spans(logits.size()));
  const auto fill = has_avx2() ? weights_with_avx2 : weights_anywhere;
  // At most the greatest float, so that 0 (the best token's distance) times it stays 0.
  const float scale = std::min(1 / temperature, std::numeric_limits<float>::max());
  double total = 0;
  for (size_t span = 0; span < span_sums.size(); ++span) {
    const size_t begin = span * kWeightSpan;
    const size_t count = std::min(kWeightSpan, logits.size() - begin);
    span_sums[span] = fill(logits.subspan(begin, count), greatest, scale, least, weights.subspan(begin, count));
    total += span_sums[span];
  }
  return total;
}

size_t find_at_least(std::span<const float> numbers, size_t begin, float bound) {
  return has_avx2() ? first_with_avx2(numbers, begin, bound) : first_anywhere(numbers, begin, bound);
}

size_t count_above(std::span<const float> numbers, float bound) {
  return has_avx2() ? above_with_avx2(numbers, bound) : above_anywhere(numbers, bound);
}

void mask_logits(std::span<const float> logits, std::span<const uint32_t> mask, std::span<float> out) {
  CHECK(out.size() == logits.size() && mask.size() == (logits.size() + 31) / 32);
  has_avx2() ? masked_with_avx2(logits, mask, out) : masked_anywhere(logits, mask, out);
}

}  // namespace twostroke
