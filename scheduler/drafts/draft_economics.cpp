#include "scheduler/drafts/draft_economics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.h"

namespace twostroke {

DraftEconomics::DraftEconomics(const CostModel& costs, const StepShape& step, double time_max_ns)
    : costs_(costs), step_(step), time_max_ns_(time_max_ns), step_ns_(costs.predict_ns(step)) {
  CHECK(step.decode_rows > 0);
}

// Each draft reads about as much context as its row's token.
double DraftEconomics::loss(uint32_t drafts) const {
  StepShape with = step_;
  with.decode_tokens += drafts;
  with.logit_tokens += drafts;
  with.decode_context += drafts * (step_.decode_context / step_.decode_rows);
  with.decode_positions += drafts;
  const double time_ns = costs_.predict_ns(with);
  if (time_ns > time_max_ns_) return std::numeric_limits<double>::infinity();
  return (step_.decode_rows + step_.prefill_rows) * std::log1p(kMargin * (time_ns / step_ns_ - 1));
}

// Certain drafts are worth the most when every row has as many.
bool DraftEconomics::could_pay(uint32_t limit) const {
  const double rows = step_.decode_rows;
  for (uint32_t drafts = 1; drafts <= limit; drafts *= 2) {
    const double gain = drafts <= step_.decode_rows ? drafts * std::log(2.0) : rows * std::log1p(drafts / rows);
    if (gain > loss(drafts)) return true;
  }
  return false;
}

void DraftEconomics::add(std::span<float> chances) {
  float accepted = 0;
  for (float& chance : chances) {
    const float worth = chance / (1 + accepted + chance / 2);
    accepted += chance;
    chance = worth;
    ++counts_[level_of(worth)];
    sums_[level_of(worth)] += static_cast<double>(worth);
  }
}

DraftEconomics::Choice DraftEconomics::choose(uint32_t limit) const {
  Choice best;
  double best_gain = 0;
  uint32_t drafts = 0;
  double worth = 0;
  for (uint32_t level = kLevels + 1; level-- > 0 && drafts < limit;) {
    if (counts_[level] == 0) continue;
    const uint32_t taken = std::min(counts_[level], limit - drafts);
    drafts += taken;
    worth += sums_[level] / counts_[level] * taken;
    const double gain = worth - loss(drafts);
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = {level, taken};
  }
  return best;
}

}  // namespace twostroke
