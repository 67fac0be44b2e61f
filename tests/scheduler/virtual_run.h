// VirtualRun: a scheduler over a simulated machine in virtual time, for questions about who waits how long.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "backend/sim/sim_backend.h"
#include "scheduler/scheduler.h"

namespace twostroke::test {

// A machine whose decode step takes 1.3 ms and whose ridge is at 37 tokens; `speed` times as fast.
inline SimOptions virtual_machine(double speed = 1) {
  SimOptions options;
  BackendInfo& info = options.info;
  info.vocab_size = 1000;
  info.context_max = 131'072;
  info.block_size = 16;
  info.block_count = 65'536;
  info.step_tokens_max = 8192;
  info.step_rows_max = 256;
  info.flops_per_token = 2e9;
  info.weight_bytes = 1e9;
  options.machine.peak_flops = 1e14 * speed;
  options.machine.peak_bytes_per_second = 1e12 * speed;
  options.machine.step_overhead_ns = static_cast<TimeNs>(50'000 / speed);
  options.pace = SimPace::kVirtual;
  options.kv_check = KvCheck::kOff;
  return options;
}

class VirtualRun {
 public:
  explicit VirtualRun(const SchedulerLimits& limits, SimOptions machine = virtual_machine()) {
    machine.clock = &clock_;
    backend_ = std::move(*SimBackend::create(std::move(machine)));
    scheduler_ = std::make_unique<Scheduler>(limits, backend_->info());
  }

  Scheduler& scheduler() { return *scheduler_; }
  TimeNs now() { return clock_.now(); }
  const StepPlan& plan() const { return plan_; }
  uint64_t steps() const { return steps_; }

  void submit(Request request) {
    const Status status = scheduler_->submit(std::move(request), now());
    EXPECT_TRUE(status.ok()) << status.message();
  }

  // One step; where there is nothing to do, time goes on to `otherwise`.
  void step(TimeNs otherwise = 0) {
    const TimeNs began = now();
    scheduler_->schedule(began, plan_, counts_);
    if (plan_.empty()) return clock_.advance(std::max<TimeNs>(otherwise - began, 1));
    ++steps_;
    EXPECT_TRUE(backend_->submit(plan_).ok());
    EXPECT_TRUE(backend_->wait(result_).ok());
    events_.clear();
    scheduler_->commit(plan_, result_, now(), events_);
    scheduler_->learn(counts_.shape, now() - began);
    for (const Event& event : events_) {
      if (event.kind == Event::Kind::kToken) first_token.try_emplace(event.request, event.time);
      if (event.kind == Event::Kind::kEnded) ends.emplace(event.request, event.summary);
    }
  }

  std::map<RequestId, TimeNs> first_token;
  std::map<RequestId, RequestSummary> ends;

 private:
  VirtualClock clock_;
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Scheduler> scheduler_;
  StepPlan plan_;
  StepCounts counts_;
  StepResult result_;
  std::vector<Event> events_;
  uint64_t steps_ = 0;
};

}  // namespace twostroke::test
