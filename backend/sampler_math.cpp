#include "backend/sampler_math.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kPart = 2048;  // logits among which the greatest is looked for once it is known to be there
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kExponentMin = -88;  // -127 ln 2, rounded: exponential() gives 0 for it

// exp(x) for x in [kExponentMin, 0]: x = n ln 2 + r with |r| <= ln 2 / 2, exp(r) by its Taylor series to the seventh
// power (whose rest is below 6e-9), and 2^n put into the exponent's bits, where n = -127 makes it 0.
float exponential(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding and subtracting it rounds to the nearest integer
  constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;  // their sum is ln 2, n * high is exact
  const float shifted = x * 0x1.715476p0f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r * r + r + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  return series * std::bit_cast<float>((exponent + 127) << 23);
}

struct PartGreatest {
  float logit;
  bool bad;
};

PartGreatest greatest_of(std::span<const float> logits) {
  std::array<float, kLanes> greatest;
  std::array<int32_t, kLanes> bad{};
  greatest.fill(-kInfinity);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float x = logits[i + lane];
      greatest[lane] = x > greatest[lane] ? x : greatest[lane];
      bad[lane] |= !(x < kInfinity);  // true for NaN too
    }
  }
  for (; i < logits.size(); ++i) {
    greatest[0] = std::max(greatest[0], logits[i]);
    bad[0] |= !(logits[i] < kInfinity);
  }
  return {*std::max_element(greatest.begin(), greatest.end()),
          std::any_of(bad.begin(), bad.end(), [](int32_t b) { return b != 0; })};
}

}  // namespace

Greatest find_greatest(std::span<const float> logits) {
  CHECK(!logits.empty());
  Greatest found;
  found.logit = -kInfinity;
  std::span<const float> best;  // the first part with the greatest logit
  for (size_t begin = 0; begin < logits.size(); begin += kPart) {
    const std::span<const float> part = logits.subspan(begin, std::min(kPart, logits.size() - begin));
    const auto [greatest, bad] = greatest_of(part);
    found.bad |= bad;
    if (greatest > found.logit) {
      found.logit = greatest;
      best = part;
    }
  }
  if (!best.empty()) {
    const auto place = std::find(best.begin(), best.end(), found.logit) - best.begin();
    found.token = static_cast<TokenId>(best.data() - logits.data() + place);
  }
  return found;
}

double fill_weights(std::span<const float> logits, float greatest, float temperature, std::span<float> weights) {
  CHECK(weights.size() == logits.size());
  // At most the greatest float, so that 0 (the best token's distance) times it stays 0.
  const float scale = std::min(1 / temperature, std::numeric_limits<float>::max());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = exponential(std::max((logits[i] - greatest) * scale, kExponentMin));
  }
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(weights[i + lane]);
  }
  for (; i < weights.size(); ++i) sums[0] += static_cast<double>(weights[i]);
  double sum = 0;
  for (double s : sums) sum += s;
  return sum;
}

}  // namespace twostroke
