#include "server/simulate/replica.h"

#include "kernels/check.h"
#include "server/simulate/simulated_time.h"

namespace twostroke::simulate {

Result<std::unique_ptr<Replica>> Replica::create(const MachineSpec& spec, const SchedulerLimits& limits,
                                                 StepSeconds calibrated) {
  std::unique_ptr<Replica> replica(new Replica(spec, std::move(calibrated)));
  SimOptions options;
  options.info = spec.info;
  options.machine = spec.machine;
  options.pace = SimPace::kVirtual;
  options.clock = &replica->clock_;
  options.kv_check = KvCheck::kOff;
  options.cost = [mine = replica.get()](const StepPlan&) { return mine->cost_of_plan(); };
  // Which token comes matters to nobody here, only that it depends on those before.
  options.script = [vocab = static_cast<uint64_t>(spec.info.vocab_size)](const SimRowView& row) {
    return std::optional(static_cast<TokenId>(row.chain % vocab));
  };
  Result<std::unique_ptr<SimBackend>> backend = SimBackend::create(std::move(options));
  if (!backend.ok()) return backend.status();
  replica->backend_ = std::move(*backend);
  replica->scheduler_ = std::make_unique<Scheduler>(limits, spec.info);
  return replica;
}

void Replica::take_jobs(std::vector<Refusal>& refusals) {
  const auto vocab = static_cast<uint32_t>(pricer_.spec().info.vocab_size);
  for (const Job& job : inbox_) {
    Request request;
    request.id = job.id;
    for (const TokenRun& run : job.prompt) append_tokens(run, vocab, request.prompt);
    if (job.first_token) {
      request.remote_tokens = static_cast<uint32_t>(request.prompt.size());
      request.prompt.push_back(*job.first_token);
    }
    request.max_tokens = job.output_tokens;
    if (Status status = scheduler_->submit(std::move(request), job.arrived); !status.ok()) {
      refusals.push_back({job.id, std::move(status)});
    }
  }
  inbox_.clear();
}

StepCost Replica::cost_of_plan() {
  terms_ = pricer_.price(step_counts_.shape);
  return {.compute_seconds = terms_.compute_seconds,
          .memory_seconds = terms_.memory_seconds,
          .total_ns = simulated_time(terms_.total_seconds * 1e9)};
}

std::optional<TimeNs> Replica::start_step(TimeNs now, std::vector<Refusal>& refusals, std::vector<Event>& events) {
  CHECK(!stepping_, "a step is in flight");
  clock_.advance(now - clock_.now());
  take_jobs(refusals);
  // An empty plan while requests are left comes at most once in a row, as the scheduler promises.
  plan_.clear();
  for (int attempt = 0; attempt < 2 && plan_.empty() && !scheduler_->idle(); ++attempt) {
    scheduler_->schedule(now, plan_, step_counts_);
    if (plan_.empty()) scheduler_->drain_events(events);
  }
  if (plan_.empty()) return std::nullopt;
  const Status status = backend_->submit(plan_);
  CHECK(status.ok(), status.message());  // a plan that breaks its contract
  stepping_ = true;
  record_ = {.begin = now,
             .end = now + simulated_time(terms_.total_seconds * 1e9),
             .shape = step_counts_.shape,
             .gauges = scheduler_->gauges()};
  account();
  return record_.end;
}

void Replica::account() {
  accounts_.add(pricer_, record_.shape, terms_);
  counts_.computed_tokens += step_counts_.computed_tokens;
  counts_.cached_tokens += step_counts_.cached_tokens;
  counts_.remote_tokens += step_counts_.remote_tokens;
  counts_.recomputed_tokens += step_counts_.recomputed_tokens;
  counts_.preemptions += step_counts_.preemptions;
  const SchedulerGauges& gauges = record_.gauges;
  kv_used_block_seconds_ += terms_.total_seconds * gauges.blocks_referenced;
  const auto waits_for = [&gauges](WaitReason reason) {
    return gauges.sequences_by_reason[static_cast<size_t>(reason)] > 0;
  };
  if (waits_for(WaitReason::kBlocks)) kv_waiting_seconds_ += terms_.total_seconds;
  if (waits_for(WaitReason::kSlot)) place_waiting_seconds_ += terms_.total_seconds;
}

double Replica::kv_used_share() const {
  const double busy = accounts_.busy_seconds();
  return busy > 0 ? kv_used_block_seconds_ / (busy * pricer_.spec().info.block_count) : 0;
}

Status Replica::end_step(std::vector<Event>& events) {
  CHECK(stepping_, "no step is in flight");
  stepping_ = false;
  if (Status status = backend_->wait(result_); !status.ok()) return status;
  scheduler_->fill_masks(plan_);
  scheduler_->commit(plan_, result_, clock_.now(), events);
  scheduler_->learn(record_.shape, record_.end - record_.begin);
  return {};
}

}  // namespace twostroke::simulate
