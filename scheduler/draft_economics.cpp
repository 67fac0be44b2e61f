#include "scheduler/draft_economics.h"

#include <algorithm>
#include <limits>

#include "kernels/check.h"

namespace twostroke {
namespace {

StepShape decodes_of(const StepShape& step) {
  StepShape decodes;
  decodes.decode_rows = step.decode_rows;
  decodes.decode_tokens = step.decode_tokens;
  decodes.decode_context = step.decode_context;
  decodes.decode_positions = step.decode_positions;
  decodes.logit_tokens = step.decode_rows;
  return decodes;
}

}  // namespace

DraftEconomics::DraftEconomics(const CostModel& costs, const StepShape& step, double time_max_ns)
    : costs_(costs), step_(step), time_max_ns_(time_max_ns) {
  CHECK(step.decode_rows > 0);
  step_ns_ = costs.predict_ns(step);
  token_ns_ = costs.predict_ns(decodes_of(step)) / step.decode_rows;
}

// Each draft reads about as much context as its row's token.
double DraftEconomics::extra_ns(uint32_t drafts) const {
  StepShape with = step_;
  with.decode_tokens += drafts;
  with.logit_tokens += drafts;
  with.decode_context += drafts * (step_.decode_context / step_.decode_rows);
  with.decode_positions += drafts;
  const double time_ns = costs_.predict_ns(with);
  return time_ns > time_max_ns_ ? std::numeric_limits<double>::infinity() : time_ns - step_ns_;
}

bool DraftEconomics::could_pay(uint32_t limit) const {
  for (uint32_t k = 1; k <= limit; k *= 2) {
    if (k * token_ns_ > extra_ns(k) * kMargin) return true;
  }
  return false;
}

void DraftEconomics::add(std::span<const float> chances) {
  for (const float chance : chances) {
    const uint32_t level = level_of(chance);
    ++counts_[level];
    sums_[level] += static_cast<double>(chance);
  }
}

DraftEconomics::Choice DraftEconomics::choose(uint32_t limit) const {
  Choice best;
  double best_gain = 0;
  uint32_t drafts = 0;
  double accepted = 0;
  for (uint32_t level = kLevels + 1; level-- > 0 && drafts < limit;) {
    if (counts_[level] == 0) continue;
    const uint32_t taken = std::min(counts_[level], limit - drafts);
    drafts += taken;
    accepted += sums_[level] / counts_[level] * taken;
    const double gain = accepted * token_ns_ - extra_ns(drafts) * kMargin;
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = {level, taken};
  }
  return best;
}

}  // namespace twostroke
