#include "scheduler/cost/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace twostroke {
namespace {

constexpr size_t kParameters = kCostKnotCount + 3;  // f at the first knot, its increments, and the other three
constexpr int kSweeps = 2000;
constexpr double kGuessWeight = 1e-4;  // of a deviation from the guess by its spread, against one by a step's time

using Parameters = std::array<double, kParameters>;

Parameters parameters_of(const CostCoefficients& c) {
  Parameters p{};
  for (size_t i = 0; i < kCostKnotCount; ++i) p[i] = c.token_ns[i] - (i > 0 ? c.token_ns[i - 1] : 0);
  p[kCostKnotCount] = c.logit_ns;
  p[kCostKnotCount + 1] = c.prefill_position_ns;
  p[kCostKnotCount + 2] = c.decode_position_ns;
  return p;
}

CostCoefficients coefficients_of(const Parameters& p) {
  CostCoefficients c;
  double f = 0;
  for (size_t i = 0; i < kCostKnotCount; ++i) c.token_ns[i] = f += p[i];
  c.logit_ns = p[kCostKnotCount];
  c.prefill_position_ns = p[kCostKnotCount + 1];
  c.decode_position_ns = p[kCostKnotCount + 2];
  return c;
}

// What each parameter is multiplied with, relative to the time that was measured.
Parameters features_of(const CostSample& sample) {
  const double tokens = sample.shape.tokens();
  const auto time = static_cast<double>(sample.duration_ns);
  Parameters x{};
  x[0] = 1 / time;
  for (size_t i = 1; i < kCostKnotCount; ++i) {
    const double begin = kCostKnots[i - 1];
    const double part = (tokens - begin) / (kCostKnots[i] - begin);
    x[i] = std::clamp(part, 0.0, i + 1 < kCostKnotCount ? 1.0 : INFINITY) / time;
  }
  x[kCostKnotCount] = sample.shape.logit_tokens / time;
  x[kCostKnotCount + 1] = static_cast<double>(sample.shape.prefill_context) / time;
  x[kCostKnotCount + 2] = static_cast<double>(sample.shape.decode_context) / time;
  return x;
}

// How far each may well be from the guess; more than nothing, for what the guess takes for free.
Parameters spreads_of(const Parameters& guess) {
  Parameters spreads = guess;
  double f = 0;
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    f += guess[i];
    spreads[i] = std::max(spreads[i], 0.1 * f);
  }
  spreads[kCostKnotCount] = std::max(spreads[kCostKnotCount], 1e-2 * guess[0]);
  for (size_t i = kCostKnotCount + 1; i < kParameters; ++i) spreads[i] = std::max(spreads[i], 1e-4 * guess[0]);
  return spreads;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

bool usable(const CostSample& sample) { return sample.shape.tokens() > 0 && sample.duration_ns > 0; }

// Beyond the largest step: as over the half of it before.
void extend_beyond(CostCoefficients& costs, uint32_t tokens_max) {
  const StepShape whole{.prefill_tokens = tokens_max};
  const StepShape half{.prefill_tokens = std::max(tokens_max / 2, 1U)};
  if (tokens_max < 2) return;
  const double end = predict_ns(costs, whole);
  const double slope = (end - predict_ns(costs, half)) / (whole.prefill_tokens - half.prefill_tokens);
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    if (kCostKnots[i] > tokens_max) costs.token_ns[i] = end + slope * (kCostKnots[i] - tokens_max);
  }
}

}  // namespace

CostCoefficients fit_costs(std::span<const CostSample> samples, const CostCoefficients& guess) {
  std::vector<Parameters> x;
  std::vector<double> ratios;
  uint32_t tokens_max = 0;
  for (const CostSample& sample : samples) {
    if (!usable(sample)) continue;
    x.push_back(features_of(sample));
    ratios.push_back(static_cast<double>(sample.duration_ns) / predict_ns(guess, sample.shape));
    tokens_max = std::max(tokens_max, sample.shape.tokens());
  }
  if (x.empty()) return guess;

  Parameters prior = parameters_of(guess);
  const double scale = median(ratios);
  for (double& value : prior) value *= scale;
  const Parameters spreads = spreads_of(prior);
  Parameters p = prior;
  std::vector<double> residuals(x.size());
  for (size_t s = 0; s < x.size(); ++s) {
    residuals[s] = -1;
    for (size_t i = 0; i < kParameters; ++i) residuals[s] += x[s][i] * p[i];
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < kParameters; ++i) {
      double curve = kGuessWeight / (spreads[i] * spreads[i]);
      double slope = curve * (p[i] - prior[i]);
      for (size_t s = 0; s < x.size(); ++s) {
        slope += residuals[s] * x[s][i];
        curve += x[s][i] * x[s][i];
      }
      const double moved = std::max(p[i] - slope / curve, i == 0 ? 1.0 : 0.0) - p[i];
      p[i] += moved;
      for (size_t s = 0; s < x.size(); ++s) residuals[s] += moved * x[s][i];
    }
  }
  CostCoefficients costs = coefficients_of(p);
  extend_beyond(costs, tokens_max);
  return costs;
}

double median_error(std::span<const CostSample> samples, const CostCoefficients& costs) {
  std::vector<double> errors;
  for (const CostSample& sample : samples) {
    if (!usable(sample)) continue;
    const auto measured = static_cast<double>(sample.duration_ns);
    errors.push_back(std::abs(predict_ns(costs, sample.shape) - measured) / measured);
  }
  return errors.empty() ? 0 : median(errors);
}

}  // namespace twostroke
