// DraftEconomics: how many drafts a step should carry, and whose.
//
// A step that carries drafts takes longer for everybody in it, and gives those whose drafts are accepted more tokens.
// With t() the predicted time of a step, S the step as planned without drafts, and e the expected number of accepted
// drafts of a row, a row's tokens per second change by the factor (1 + e) t(S) / t(S with drafts). Drafts are sent so
// that the product of these factors over all rows is greatest (proportional fairness: Kelly 1997, "Charging and rate
// control for elastic traffic"): the maximum of
//
//     gain = sum over decodes of log(1 + e)  -  rows of S * log(1 + kMargin * (t(S with drafts) / t(S) - 1))
//
// For one sequence by itself that is the most tokens per second. Among many, nobody's stream is slowed by half so that
// another's gains a little more than that; prefill rows count too. Where decodes leave arithmetic idle, a draft costs
// little and many pay; where each token costs (a large batch, a machine that is bound by arithmetic) even certain ones
// do not, and nothing is drafted.
//
// A draft is worth what it adds to its row's logarithm, c / (1 + e + c / 2) for a chance c behind drafts of together e,
// which falls along the row. The worthiest are sent first, whoever they belong to. Worths are counted in kLevels
// levels: no sorting, and as many predictions as there are levels.
//
// Thread-safety: plain values; borrows the cost model.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/step_shape.h"

namespace twostroke {

class DraftEconomics {
 public:
  static constexpr double kMargin = 1.2;  // predictions of times and chances are some percent off
  static constexpr uint32_t kLevels = 64;

  // `step` as planned without drafts; it has decodes. A step must not be predicted to take longer than time_max_ns.
  DraftEconomics(const CostModel& costs, const StepShape& step, double time_max_ns);

  // Whether up to `limit` drafts would pay if all of them were certain. False: none needs to be looked for.
  bool could_pay(uint32_t limit) const;

  // Takes the chances of one row's drafts, falling, and leaves what each is worth in their place.
  void add(std::span<float> chances);

  // Which drafts to send, `limit` at most: those of a level above the result's, and `at_level` of those at it.
  struct Choice {
    uint32_t level = kLevels + 1;
    uint32_t at_level = 0;
  };
  Choice choose(uint32_t limit) const;

  static uint32_t level_of(float worth) { return static_cast<uint32_t>(worth * kLevels); }

 private:
  double loss(uint32_t drafts) const;  // the second term of the gain; infinite where the step would take too long

  const CostModel& costs_;
  const StepShape step_;
  const double time_max_ns_;
  const double step_ns_;
  std::array<uint32_t, kLevels + 1> counts_{};
  std::array<double, kLevels + 1> sums_{};
};

}  // namespace twostroke
