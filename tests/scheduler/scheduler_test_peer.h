// SchedulerTestPeer: lets tests see a sequence's state, and break an invariant on purpose.
#pragma once

#include "scheduler/scheduler.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

struct SchedulerTestPeer {
  using Impl = Scheduler::Impl;
  static Impl& impl(Scheduler& scheduler) { return *scheduler.impl_; }
  static const Impl& impl(const Scheduler& scheduler) { return *scheduler.impl_; }
  static CostCoefficients& costs_of(CostModel& costs) { return costs.coefficients_; }
  // Null when the request is unknown or has ended.
  template <typename AnyScheduler>
  static auto* sequence(AnyScheduler& scheduler, RequestId request, uint32_t index = 0) {
    auto& requests = impl(scheduler).requests_;
    const auto found = requests.find(request);
    return found == requests.end() ? nullptr : &found->second->sequences[index];
  }
};

}  // namespace twostroke
