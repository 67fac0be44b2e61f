#include "scheduler/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/check.h"

namespace twostroke {
namespace {

constexpr size_t kLogit = kCostKnotCount;
constexpr size_t kPrefillPosition = kCostKnotCount + 1;
constexpr size_t kDecodePosition = kCostKnotCount + 2;

// Variances of logarithms, in units of the noise of a single step (taken as about 5 % of its time). In a steady state
// the filter's gain is about the root of the walk's variance: 1/15 for the scale, 1/25 for a coefficient by itself.
constexpr double kCommonWalk = 1.0 / (15 * 15);
constexpr double kOwnWalk = 1.0 / (25 * 25);
constexpr double kNeighbour = 0.8;       // correlation of the own parts of neighbouring knots
constexpr double kWalkBound = 2;         // no walk beyond this
constexpr double kCalibratedCommon = 9;  // 15 %
constexpr double kCalibratedOwn = 4;     // 10 %
constexpr double kGuessedCommon = 64;    // after the first step, which sets the scale
constexpr double kGuessedOwn = 400;      // a factor of e
constexpr uint64_t kSettlingSteps = 8;   // of a guess: nothing is an outlier yet
constexpr int32_t kChangeSteps = 4;      // so many beyond the clip in a row are a change,
constexpr double kChange = 1;            // which adds so much to the uncertainty of the scale: a gain of a half
constexpr double kClipMin = 0.15;
constexpr double kClipMax = 0.6;
constexpr double kErrorMax = 1.9;  // a factor of 39
constexpr double kMoveMax = 1;     // a factor of 3
// Bounds of the coefficients, the latter in parts of the time of a single token.
constexpr double kTokenNsMin = 1;
constexpr double kStepNsMax = 1e14;  // a day
constexpr double kLogitFloor = 1e-5;
constexpr double kPositionFloor = 1e-7;

// What coefficients share of their own parts: knots less and less with their distance (an AR(1) process, whose matrix
// is positive definite), the others nothing.
template <size_t kSize>
constexpr std::array<std::array<double, kSize>, kSize> shared_parts() {
  std::array<std::array<double, kSize>, kSize> shared{};
  for (size_t i = 0; i < kSize; ++i) {
    shared[i][i] = 1;
    double part = 1;
    for (size_t k = i + 1; i < kCostKnotCount && k < kCostKnotCount; ++k) {
      part *= kNeighbour;
      shared[i][k] = shared[k][i] = part;
    }
  }
  return shared;
}
constexpr auto kShared = shared_parts<kCostKnotCount + 3>();

// The knot at or before `tokens` that has another behind it.
uint32_t segment_of(uint32_t tokens) {
  const auto above = std::upper_bound(kCostKnots.begin() + 1, kCostKnots.end() - 1, tokens);
  return static_cast<uint32_t>(above - kCostKnots.begin()) - 1;
}

// Where in its segment: 0 at its beginning, 1 at its end, more beyond the last knot.
double place_in(uint32_t segment, uint32_t tokens) {
  const double begin = kCostKnots[segment];
  return (tokens - begin) / (kCostKnots[segment + 1] - begin);
}

double tokens_ns(const CostCoefficients& c, uint32_t tokens) {
  const uint32_t segment = segment_of(tokens);
  return std::lerp(c.token_ns[segment], c.token_ns[segment + 1], place_in(segment, tokens));
}

// The most tokens, at least `least`, whose f is at most `limit_ns`.
uint32_t tokens_within(const CostCoefficients& c, double limit_ns, uint32_t least, uint32_t most) {
  uint32_t low = least;
  uint32_t high = std::max(least, most);
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (tokens_ns(c, middle) <= limit_ns) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

uint32_t worthwhile_by_knots(const CostCoefficients& costs, uint32_t tokens_max) {
  const auto rate = [&costs](uint32_t tokens) { return tokens / tokens_ns(costs, tokens); };
  double best = rate(std::max(tokens_max, 1U));
  for (const uint32_t knot : kCostKnots) {
    if (knot < tokens_max) best = std::max(best, rate(knot));
  }
  const double enough = CostModel::kWorthwhileThroughput * best;
  // Within a segment f is a straight line, so that the rate rises or falls all the way: an end that has enough has a
  // first place before it, where the line a + b * tokens gives `enough`.
  if (rate(1) >= enough) return 1;
  for (size_t i = 1; i < kCostKnotCount; ++i) {
    const uint32_t end = std::min(kCostKnots[i], tokens_max);
    if (rate(end) < enough && end < tokens_max) continue;
    const double slope = (costs.token_ns[i] - costs.token_ns[i - 1]) / (kCostKnots[i] - kCostKnots[i - 1]);
    const double offset = costs.token_ns[i - 1] - slope * kCostKnots[i - 1];
    const double tokens = std::ceil(offset * enough / (1 - slope * enough));
    return static_cast<uint32_t>(std::clamp<double>(tokens, kCostKnots[i - 1], end));
  }
  return tokens_max;
}

uint32_t worthwhile_by_line(const CostCoefficients& costs, uint32_t tokens_max) {
  const uint32_t alone = tokens_within(costs, (1 + CostModel::kRidgeFraction) * costs.token_ns[0], 1, tokens_max);
  const uint32_t least = std::min(std::max(alone, CostModel::kWorthwhileTokensMin), tokens_max);
  // Least squares of (a + b * tokens) / f = 1.
  double xx = 0;
  double xy = 0;
  double yy = 0;
  double x_sum = 0;
  double y_sum = 0;
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    if (kCostKnots[i] < least || kCostKnots[i] > tokens_max) continue;
    const double x = 1 / costs.token_ns[i];
    const double y = kCostKnots[i] * x;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x_sum += x;
    y_sum += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (!(determinant > 0)) return least;  // fewer than two knots
  const double fixed = (x_sum * yy - y_sum * xy) / determinant;
  const double slope = (y_sum * xx - x_sum * xy) / determinant;
  if (fixed <= 0) return least;
  if (slope <= 0) return tokens_max;
  const double enough_ns = (fixed / tokens_max + slope) / CostModel::kWorthwhileThroughput;  // for each token
  return static_cast<uint32_t>(std::clamp<double>(std::ceil(fixed / (enough_ns - slope)), least, tokens_max));
}

}  // namespace

bool CostCoefficients::valid() const {
  double before = 0;
  for (const double value : token_ns) {
    if (!std::isfinite(value) || value <= 0 || value < before) return false;
    before = value;
  }
  const auto fine = [](double value) { return std::isfinite(value) && value >= 0; };
  return fine(logit_ns) && fine(prefill_position_ns) && fine(decode_position_ns);
}

double predict_ns(const CostCoefficients& c, const StepShape& shape) {
  const uint32_t tokens = shape.tokens();
  if (tokens == 0) return 0;
  return tokens_ns(c, tokens) + c.logit_ns * shape.logit_tokens +
         c.prefill_position_ns * static_cast<double>(shape.prefill_context) +
         c.decode_position_ns * static_cast<double>(shape.decode_context);
}

CostCoefficients guess_costs(const BackendInfo& info) {
  constexpr double kOverheadNs = 1e5;
  const auto or_guess = [](double value, double guess) { return value > 0 ? value : guess; };
  const double weight_bytes = or_guess(info.weight_bytes, 1e8);
  const double flops = or_guess(info.peak_flops, kGuessedFlops) * 1e-9;
  const double bytes = or_guess(info.peak_bytes_per_second, kGuessedBytesPerSecond) * 1e-9;
  const double token_ns = or_guess(info.flops_per_token, 2e8) / flops;
  const double read_ns = weight_bytes / bytes;
  CostCoefficients c;
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    c.token_ns[i] = kOverheadNs + std::max(read_ns, token_ns * kCostKnots[i]) + 0.05 * token_ns * kCostKnots[i];
  }
  c.logit_ns = std::max(info.output_flops, 0.0) / flops;
  c.decode_position_ns = std::max(info.kv_bytes_per_token, 0.0) / bytes;
  // The tokens of a chunk share what they read; what is left is arithmetic.
  c.prefill_position_ns = std::max(info.attention_flops_per_position, 0.0) / flops;
  return c;
}

CostModel::CostModel(const CostCoefficients& coefficients, Prior prior)
    : calibrated_(prior == Prior::kCalibrated), coefficients_(coefficients), calibration_(coefficients) {
  CHECK(coefficients.valid(), "a cost model begins with valid coefficients");
  std::ranges::copy(coefficients.token_ns, values_.begin());
  values_[kLogit] = coefficients.logit_ns;
  values_[kPrefillPosition] = coefficients.prefill_position_ns;
  values_[kDecodePosition] = coefficients.decode_position_ns;
  publish();
  if (calibrated_) {
    walk(kCalibratedCommon, kCalibratedOwn);
  } else {
    walk(kGuessedCommon, kGuessedOwn);
  }
}

bool CostModel::settling() const { return !calibrated_ && steps_learned_ <= kSettlingSteps; }
bool CostModel::knows_scale() const { return !settling(); }

CostModel::Features CostModel::features(const StepShape& shape, double predicted) const {
  const uint32_t segment = segment_of(shape.tokens());
  const double place = place_in(segment, shape.tokens());
  Features f;
  f.index = {segment, segment + 1, kLogit, kPrefillPosition, kDecodePosition};
  f.share = {1 - place, place, static_cast<double>(shape.logit_tokens), static_cast<double>(shape.prefill_context),
             static_cast<double>(shape.decode_context)};
  for (size_t i = 0; i < f.index.size(); ++i) f.share[i] *= values_[f.index[i]] / predicted;
  return f;
}

void CostModel::learn(const StepShape& shape, TimeNs duration_ns) {
  if (shape.tokens() == 0 || duration_ns <= 0) return;
  const double measured = std::min(static_cast<double>(duration_ns), kStepNsMax);
  const double predicted = predict_ns(shape);
  errors_.add(std::abs(predicted - measured) / measured);
  if (shape.prefill_tokens > 0 && shape.decode_tokens > 0) overruns_.add(measured - predicted);
  if (++steps_learned_ == 1 && !calibrated_) {
    for (double& value : values_) value *= measured / predicted;
  } else {
    const double error = 2 * (measured - predicted) / (measured + predicted);
    const double clip = clip_for(error);
    update(features(shape, predicted), std::clamp(error, -clip, clip));
    keep_monotone(segment_of(shape.tokens()));
    walk(kCommonWalk, kOwnWalk);
  }
  publish();
}

// How much of an error is believed. After a few in a row beyond that, on the same side, the scale becomes uncertain,
// and what comes next counts in full.
double CostModel::clip_for(double error) {
  if (settling()) return kErrorMax;
  const double clip = std::clamp(kClipErrors * error_ratio(), kClipMin, kClipMax);
  const int32_t side = error > clip ? 1 : error < -clip ? -1 : 0;
  streak_ = side == 0 ? 0 : streak_ * side > 0 ? std::clamp(streak_ + side, -kChangeSteps, kChangeSteps) : side;
  if (std::abs(streak_) < kChangeSteps) return clip;
  walk(kChange, 0);
  return kErrorMax;
}

// A step of the random walk, of those coefficients whose uncertainty is not at its bound yet. Adding a masked positive
// semi-definite matrix keeps the covariance one.
void CostModel::walk(double common, double own) {
  Vector walks;
  for (size_t i = 0; i < kSize; ++i) walks[i] = covariance_[i][i] < kWalkBound ? 1 : 0;
  for (size_t i = 0; i < kSize; ++i) {
    for (size_t k = 0; k < kSize; ++k) {
      covariance_[i][k] += walks[i] * walks[k] * (common + own * kShared[i][k]);
    }
  }
}

// With P the covariance and h the shares: gain = P h / (h' P h + 1). A coefficient's logarithm moves by no more than
// kMoveMax: the shares hold only near by.
void CostModel::update(const Features& f, double error) {
  Vector product{};
  for (size_t j = 0; j < f.index.size(); ++j) {
    const Vector& row = covariance_[f.index[j]];
    for (size_t i = 0; i < kSize; ++i) product[i] += f.share[j] * row[i];
  }
  double variance = 1;
  for (size_t j = 0; j < f.index.size(); ++j) variance += f.share[j] * product[f.index[j]];
  for (size_t i = 0; i < kSize; ++i) {
    const double gain = product[i] / variance;
    const double move = std::clamp(gain * error, -kMoveMax, kMoveMax);
    values_[i] *= (2 + move) / (2 - move);
    for (size_t k = 0; k < kSize; ++k) covariance_[i][k] -= gain * product[k];
  }
}

// What was just seen is right, and the others follow it.
void CostModel::keep_monotone(uint32_t knot) {
  Vector& f = values_;
  if (f[knot] > f[knot + 1]) f[knot] = f[knot + 1] = (f[knot] + f[knot + 1]) / 2;
  for (size_t i = knot; i-- > 0;) f[i] = std::min(f[i], f[i + 1]);
  for (size_t i = knot + 2; i < kCostKnotCount; ++i) f[i] = std::max(f[i], f[i - 1]);
}

// Keeps all values where they can still be learned from, whatever was.
void CostModel::publish() {
  for (size_t i = 0; i < kCostKnotCount; ++i) values_[i] = std::clamp(values_[i], kTokenNsMin, kStepNsMax);
  const double single = values_[0];
  values_[kLogit] = std::clamp(values_[kLogit], kLogitFloor * single, single);
  values_[kPrefillPosition] = std::clamp(values_[kPrefillPosition], kPositionFloor * single, single);
  values_[kDecodePosition] = std::clamp(values_[kDecodePosition], kPositionFloor * single, single);
  std::copy_n(values_.begin(), kCostKnotCount, coefficients_.token_ns.begin());
  coefficients_.logit_ns = values_[kLogit];
  coefficients_.prefill_position_ns = values_[kPrefillPosition];
  coefficients_.decode_position_ns = values_[kDecodePosition];
}

uint32_t CostModel::ridge_tokens(const StepShape& decodes, uint32_t tokens_max) const {
  const uint32_t least = std::max(decodes.decode_tokens, 1U);
  const double others = coefficients_.decode_position_ns * static_cast<double>(decodes.decode_context) +
                        coefficients_.logit_ns * std::max(decodes.decode_rows, 1U);
  const double alone = tokens_ns(coefficients_, least) + others;
  return tokens_within(coefficients_, (1 + kRidgeFraction) * alone - others, least, tokens_max);
}

uint32_t CostModel::worthwhile_tokens(uint32_t tokens_max) const {
  tokens_max = std::max(tokens_max, 1U);
  const CostCoefficients& costs = calibrated_ ? calibration_ : coefficients_;
  const uint32_t tokens = std::min(worthwhile_by_knots(costs, tokens_max), worthwhile_by_line(costs, tokens_max));
  return std::min(std::max(tokens, kWorthwhileTokensMin), tokens_max);
}

CostShares CostModel::attribute(const StepShape& shape, TimeNs duration_ns) const {
  if (shape.decode_tokens == 0) return {.prefill_ns = duration_ns};
  if (shape.prefill_tokens == 0) return {.decode_ns = duration_ns};
  StepShape prefill = shape;
  prefill.decode_rows = prefill.decode_tokens = 0;
  prefill.decode_context = 0;
  StepShape decode = shape;
  decode.prefill_rows = decode.prefill_tokens = 0;
  decode.prefill_context = 0;
  decode.logit_tokens = std::min(shape.logit_tokens, shape.decode_tokens);
  prefill.logit_tokens = shape.logit_tokens - decode.logit_tokens;
  const double both = predict_ns(shape);
  const double difference = predict_ns(prefill) - predict_ns(decode);
  const double share = std::clamp(0.5 + 0.5 * difference / both, 0.0, 1.0);
  const auto prefill_ns = static_cast<TimeNs>(share * static_cast<double>(duration_ns));
  return {.prefill_ns = prefill_ns, .decode_ns = duration_ns - prefill_ns};
}

}  // namespace twostroke
