// DraftEconomics: how many drafts a step should carry, and how probable one must be.
//
// A step that carries drafts takes longer, and every accepted one saves its sequence a step. With t() the predicted
// time of a step, S the step as planned without drafts, D its decodes alone, and c the chances of the k drafts:
//
//     gain(k) = (t(D) / decodes in D) * sum of c  -  (t(S with k drafts) - t(S)) * kMargin
//
// The first term is the time that output tokens take when nothing is drafted; with prefill in the step it is still that
// of the decodes alone, so that drafts pay only for what they add to a step which has enough to do already. Where
// decodes leave arithmetic idle, a draft costs little and many pay; where each token costs (a large batch, a machine
// that is bound by arithmetic) even certain ones do not, and nothing is drafted.
//
// Drafts are taken by chance, the most probable first, whoever they belong to. Chances are counted in kLevels levels:
// no sorting, and as many predictions as there are levels.
//
// Thread-safety: plain values; borrows the cost model.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "scheduler/cost_model.h"
#include "scheduler/step_shape.h"

namespace twostroke {

class DraftEconomics {
 public:
  // Predictions are some percent off; what gains less than this is left alone.
  static constexpr double kMargin = 1.1;
  static constexpr uint32_t kLevels = 64;

  // `step` as planned without drafts; it has decodes. A step must not be predicted to take longer than time_max_ns.
  DraftEconomics(const CostModel& costs, const StepShape& step, double time_max_ns);

  // Whether up to `limit` drafts would pay if all of them were certain. False: none needs to be looked for.
  bool could_pay(uint32_t limit) const;

  // Chances of one row's drafts, falling.
  void add(std::span<const float> chances);

  // Which drafts to send, `limit` at most: those of a level above the result's, and `at_level` of those at it.
  struct Choice {
    uint32_t level = kLevels + 1;
    uint32_t at_level = 0;
  };
  Choice choose(uint32_t limit) const;

  static uint32_t level_of(float chance) { return static_cast<uint32_t>(chance * kLevels); }

 private:
  double extra_ns(uint32_t drafts) const;  // infinite where the step would take too long

  const CostModel& costs_;
  const StepShape step_;
  const double time_max_ns_;
  double step_ns_ = 0;
  double token_ns_ = 0;  // what an output token is worth
  std::array<uint32_t, kLevels + 1> counts_{};
  std::array<double, kLevels + 1> sums_{};
};

}  // namespace twostroke
