// Replica: one server of the fleet: the real Scheduler over a SimBackend, on a clock of its own that jumps from step to
// step. It does what Engine does with threads: requests that come while a step runs wait for its end.
//
// Between start_step() and end_step() a step is in flight. Time is given from outside and never goes back.
//
// Disaggregation uses the same scheduler on both sides. A prefill replica gets a request for one token. A decode
// replica gets it again, with that token behind the prompt and the prompt's KV as Request::remote_tokens: it is
// admitted when there are blocks for all of it, like every other, and computes only the last token. (The alternative,
// to put the blocks into the prefix cache before the request comes, would let them be evicted before it starts, and
// would ship full blocks only.)
//
// Thread-safety: one thread.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/sim/sim_backend.h"
#include "scheduler/scheduler.h"
#include "server/simulate/step_terms.h"
#include "server/simulate/workload.h"

namespace twostroke::simulate {

// A request as a replica gets it.
struct Job {
  RequestId id = 0;
  TimeNs arrived = 0;
  std::vector<TokenRun> prompt;
  std::optional<TokenId> first_token;  // follows the prompt: made by a prefill replica, whose KV comes with the job
  uint32_t output_tokens = 1;
};

struct StepRecord {
  TimeNs begin = 0;
  TimeNs end = 0;
  StepShape shape;
  SchedulerGauges gauges;  // behind the step's plan
};

class Replica {
 public:
  // Errors: kInvalidArgument from the backend's checks.
  static Result<std::unique_ptr<Replica>> create(const MachineSpec& spec, const SchedulerLimits& limits,
                                                 StepSeconds calibrated);

  void push(Job job) { inbox_.push_back(std::move(job)); }
  bool stepping() const { return stepping_; }

  struct Refusal {
    RequestId id = 0;
    Status status;
  };
  // Takes what was pushed, and starts a step at `now` if there is anything to do. Returns when the step will end, or
  // nullopt when nothing runs. Requests that are not taken go to `refusals`; events of requests that the scheduler
  // ends without a step are appended to `events`. Requires !stepping().
  std::optional<TimeNs> start_step(TimeNs now, std::vector<Refusal>& refusals, std::vector<Event>& events);
  // The step's time has come. Appends its events. Requires stepping(). Errors: kInternal, a fault of the simulation.
  Status end_step(std::vector<Event>& events);

  const StepRecord& last_step() const { return record_; }
  bool idle() const { return scheduler_->idle() && inbox_.empty(); }

  // What it did so far.
  const StepAccounts& accounts() const { return accounts_; }
  double kv_waiting_seconds() const { return kv_waiting_seconds_; }  // of steps with a request that waited for blocks
  double place_waiting_seconds() const { return place_waiting_seconds_; }  // likewise, for a place (max_running)
  double kv_used_share() const;                                            // of KV blocks, over busy time
  struct Counts {
    uint64_t computed_tokens = 0;
    uint64_t cached_tokens = 0;
    uint64_t remote_tokens = 0;
    uint64_t recomputed_tokens = 0;
    uint64_t preemptions = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  Replica(const MachineSpec& spec, StepSeconds calibrated) : pricer_(spec, std::move(calibrated)) {}
  void take_jobs(std::vector<Refusal>& refusals);
  StepCost cost_of_plan();
  void account();

  const StepPricer pricer_;
  VirtualClock clock_;
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<Job> inbox_;
  bool stepping_ = false;
  StepPlan plan_;
  StepResult result_;
  StepCounts step_counts_;  // of the step in flight
  StepTerms terms_;         // likewise
  StepRecord record_;

  StepAccounts accounts_;
  Counts counts_;
  double kv_waiting_seconds_ = 0;
  double place_waiting_seconds_ = 0;
  double kv_used_block_seconds_ = 0;
};

}  // namespace twostroke::simulate
