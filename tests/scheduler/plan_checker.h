// PlanChecker: looks at plans from the outside, as a backend does, and says what is wrong with one. It knows the limits
// and what earlier plans were, but nothing of the scheduler's state. What a backend relies on in any plan is checked by
// backend/sim/plan_check.h; this adds what the scheduler promises beyond that.
#pragma once

#include <string>
#include <unordered_map>

#include "backend/backend.h"
#include "scheduler/scheduler.h"

namespace twostroke::test {

class PlanChecker {
 public:
  PlanChecker(const SchedulerLimits& limits, const BackendInfo& info) : limits_(limits), info_(info) {}

  // Empty when all is well. `counts` is what the scheduler said about the plan, `blocks_available` what the pool has
  // left.
  std::string check(const StepPlan& plan, const StepCounts& counts, uint32_t blocks_available);

  // The sequence will not be seen again.
  void forget(SequenceId sequence) { known_.erase(sequence); }

 private:
  std::string check_shape(const StepPlan& plan) const;
  std::string check_row(const StepPlan& plan, const Row& row) const;
  std::string check_writes(const StepPlan& plan) const;
  std::string check_counts(const StepPlan& plan, const StepCounts& counts) const;
  std::string check_work(const StepPlan& plan, const StepShape& shape) const;
  std::string check_progress(const StepPlan& plan, const StepCounts& counts, uint32_t blocks_available);

  struct Known {
    uint32_t end = 0;       // of its last row, drafts aside
    uint32_t drafts = 0;    // of that row
    bool decoding = false;  // its last row sampled
    uint64_t step = 0;
  };
  SchedulerLimits limits_;
  BackendInfo info_;
  uint64_t steps_ = 0;
  std::unordered_map<SequenceId, Known> known_;
};

}  // namespace twostroke::test
