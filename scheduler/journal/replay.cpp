#include "scheduler/journal/replay.h"

#include <algorithm>

#include "scheduler/journal/plan_digest.h"
#include "scheduler/token_constraint.h"

namespace twostroke {
namespace {

Status impossible(const std::string& what) {
  return invalid_argument("the journal holds what no scheduler can have been told: " + what);
}

bool within(int64_t value, int64_t most) { return value > 0 && value <= most; }

Status check_header(const RecordedScheduler& header) {
  const BackendInfo& info = header.info;
  const bool plausible = within(info.vocab_size, kReplayVocabMax) && within(info.context_max, INT32_MAX) &&
                         within(info.block_size, INT32_MAX) && within(info.block_count, INT32_MAX) &&
                         within(int64_t{info.block_size} * info.block_count, kReplayPositionsMax) &&
                         info.block_count <= kReplayBlocksMax && within(info.step_tokens_max, kReplayStepMax) &&
                         within(info.step_rows_max, kReplayStepMax) && info.embedding_size >= 0 &&
                         info.embedding_size <= kReplayVocabMax;
  if (!plausible) return impossible("a backend of impossible size");
  const SchedulerLimits& limits = header.limits;
  if (limits.max_step_tokens == 0 || limits.max_running == 0 || limits.max_waiting_requests == 0 ||
      limits.max_waiting_tokens == 0 || limits.itl_target_ns < 0) {
    return impossible("limits of 0");
  }
  if (!(limits.costs ? *limits.costs : guess_costs(info)).valid()) return impossible("costs that are no numbers");
  return {};
}

RecordedSchedule as_recorded(TimeNs now, const StepPlan& plan, const StepCounts& counts, const StepBudget& budget) {
  RecordedSchedule decision{.now = now,
                            .step = plan.step,
                            .digest = digest_of(plan, counts, budget),
                            .preemptions = counts.preemptions,
                            .budget = budget};
  for (const Row& row : plan.rows) {
    decision.rows.push_back({.sequence = row.sequence,
                             .position = row.position,
                             .token_count = row.token_count,
                             .draft_count = row.draft_count,
                             .samples = row.samples});
  }
  return decision;
}

}  // namespace

// Allows what makes the recorded token of its sequence's row come out as it did.
class Replay::StandIn final : public TokenConstraint {
 public:
  void set(MaskVerdict verdict, TokenId token) { verdict_ = verdict, token_ = token; }

  void fill_mask(std::span<uint32_t> mask) override {
    if (verdict_ == MaskVerdict::kStuck) return;
    const auto bit = static_cast<uint32_t>(token_);
    const bool within_mask = bit / 32 < mask.size();
    if (verdict_ == MaskVerdict::kTaken) {
      if (within_mask) mask[bit / 32] |= 1U << (bit % 32);
      return;
    }
    std::ranges::fill(mask, ~0U);
    if (within_mask) mask[bit / 32] &= ~(1U << (bit % 32));
  }
  void accept(TokenId) override {}

 private:
  MaskVerdict verdict_ = MaskVerdict::kStuck;
  TokenId token_ = -1;
};

Replay::Replay(JournalReader& reader, OnDecision on_decision) : reader_(reader), on_decision_(std::move(on_decision)) {}
Replay::~Replay() = default;

Result<bool> Replay::advance() {
  if (difference_) return false;
  Result<std::optional<JournalRecord>> record = reader_.next();
  if (!record.ok()) return record.status();
  if (!record->has_value()) return false;
  if (ended_) return impossible("calls behind its end");
  if (Status status = std::visit([this](auto& one) { return apply(one); }, **record); !status.ok()) return status;
  return !difference_;
}

std::optional<Replay::SequenceName> Replay::name_of(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) return std::nullopt;
  return found->second.name;
}

Status Replay::ready(bool in_flight) const {
  if (scheduler_ == nullptr) return impossible("calls before the scheduler was made");
  if (in_flight != in_flight_) return impossible("a step that was decided twice, or ended without being decided");
  return {};
}

void Replay::take_time(TimeNs now) {
  if (summary_.first_time < 0) summary_.first_time = now;
  summary_.last_time = std::max(summary_.last_time, now);
}

Status Replay::apply(RecordedProgram& record) {
  if (summary_.program || scheduler_ != nullptr) return impossible("two beginnings");
  summary_.program = std::move(record);
  return {};
}

Status Replay::apply(RecordedScheduler& record) {
  if (scheduler_ != nullptr) return impossible("two schedulers");
  if (Status status = check_header(record); !status.ok()) return status;
  scheduler_ = std::make_unique<Scheduler>(record.limits, record.info);
  summary_.scheduler = std::move(record);
  return {};
}

Status Replay::apply(RecordedSubmit& record) {
  if (Status status = ready(/*in_flight=*/false); !status.ok()) return status;
  take_time(record.now);
  Request& request = record.request;
  const RequestId id = request.id;
  if (requests_.contains(id)) return impossible("a request id that is used twice");
  if (!std::ranges::is_sorted(request.stop_tokens)) return impossible("stop tokens out of order");
  if (record.constraints > kMaxSequences) return impossible("more constraints than sequences");

  std::vector<StandIn*> stand_ins;
  for (uint32_t i = 0; i < record.constraints; ++i) {
    auto stand_in = std::make_unique<StandIn>();
    stand_ins.push_back(stand_in.get());
    request.constraints.push_back(std::move(stand_in));
  }
  const uint32_t n = request.n;
  const auto prompt_tokens = static_cast<uint32_t>(request.prompt.size());
  const Status status = scheduler_->submit(std::move(request), record.now);
  if (status.code() != record.outcome) {
    difference_ = {.kind = ReplayDifference::Kind::kRefusal, .step = summary_.steps, .request = id};
    return {};
  }
  if (!status.ok()) {
    ++summary_.refused;
    return {};
  }
  ++summary_.requests;
  requests_[id] = {.first = sequences_made_ + 1, .count = n};
  for (uint32_t i = 0; i < n; ++i) {
    sequences_[++sequences_made_] = {.name = {.request = id, .index = i, .prompt_tokens = prompt_tokens},
                                     .stand_in = stand_ins.empty() ? nullptr : stand_ins[i]};
  }
  return {};
}

Status Replay::apply(RecordedCancel& record) {
  if (Status status = ready(/*in_flight=*/false); !status.ok()) return status;
  take_time(record.now);
  scheduler_->cancel(record.request, record.now);
  return {};
}

Status Replay::apply(RecordedFinish& record) {
  if (Status status = ready(/*in_flight=*/false); !status.ok()) return status;
  take_time(record.now);
  scheduler_->finish_sequence(record.request, record.sequence, record.now);
  return {};
}

Status Replay::apply(RecordedFailAll& record) {
  if (Status status = ready(/*in_flight=*/false); !status.ok()) return status;
  if (record.code == StatusCode::kOk) return impossible("a failure without an error");
  take_time(record.now);
  scheduler_->fail_all(Status(record.code, "as recorded"), record.now);
  return {};
}

Status Replay::apply(RecordedSchedule& record) {
  if (Status status = ready(/*in_flight=*/false); !status.ok()) return status;
  take_time(record.now);
  scheduler_->schedule(record.now, plan_, counts_);
  in_flight_ = !plan_.empty();
  const SchedulerGauges gauges = scheduler_->gauges();
  const StepBudget budget{.prefill_tokens = gauges.prefill_chunk_tokens, .reason = gauges.chunk_reason};
  if (digest_of(plan_, counts_, budget) != record.digest) {
    difference_ = {.kind = ReplayDifference::Kind::kDecision,
                   .step = record.step != 0 ? record.step : plan_.step,
                   .recorded = record,
                   .replayed = as_recorded(record.now, plan_, counts_, budget)};
    return {};
  }
  if (!plan_.empty()) ++summary_.steps;
  summary_.preemptions += counts_.preemptions;
  if (on_decision_) on_decision_(record, plan_, counts_);
  return {};
}

Status Replay::apply(RecordedCommit& record) {
  if (Status status = ready(/*in_flight=*/!plan_.empty()); !status.ok()) return status;
  take_time(record.now);
  fill_result(record);
  if (in_flight_) scheduler_->fill_masks(plan_);
  in_flight_ = false;
  scheduler_->commit(plan_, result_, record.now, events_);
  take_events(record.events_digest);
  return {};
}

// What the journal leaves out decides nothing, and is zero.
void Replay::fill_result(const RecordedCommit& record) {
  result_.rows.resize(record.rows.size());
  const auto hidden_size = static_cast<size_t>(summary_.scheduler->info.embedding_size);
  for (size_t i = 0; i < record.rows.size(); ++i) {
    const RecordedResult& from = record.rows[i];
    RowResult& to = result_.rows[i];
    to.reset();
    to.status = from.finite ? RowStatus::kOk : RowStatus::kNotFinite;
    to.token = from.token;
    to.following.resize(from.following.size());
    for (size_t k = 0; k < from.following.size(); ++k) to.following[k].token = from.following[k];
    if (i >= plan_.rows.size()) continue;
    const Row& row = plan_.rows[i];
    to.targets.resize(row.targets.size() + (from.targets_fit ? 0 : 1));
    if (row.pooling != Pooling::kNone) to.hidden.resize(hidden_size + (from.hidden_fits ? 0 : 1));
    const auto sequence = sequences_.find(row.sequence);
    if (sequence != sequences_.end() && sequence->second.stand_in != nullptr) {
      sequence->second.stand_in->set(from.mask, from.token);
    }
  }
}

Status Replay::apply(RecordedFail& record) {
  if (Status status = ready(/*in_flight=*/!plan_.empty()); !status.ok()) return status;
  if (record.code == StatusCode::kOk) return impossible("a failure without an error");
  take_time(record.now);
  in_flight_ = false;
  scheduler_->fail(plan_, Status(record.code, "as recorded"), record.now, events_);
  take_events(record.events_digest);
  return {};
}

Status Replay::apply(RecordedLearn& record) {
  if (scheduler_ == nullptr) return impossible("calls before the scheduler was made");
  scheduler_->learn(record.shape.value_or(counts_.shape), record.duration_ns);
  return {};
}

Status Replay::apply(RecordedDrain&) {
  if (Status status = ready(/*in_flight=*/false); !status.ok()) return status;
  scheduler_->drain_events(events_);
  count_events();
  return {};
}

Status Replay::apply(RecordedEnd& record) {
  ended_ = true;
  summary_.end_reason = std::move(record.reason);
  return {};
}

void Replay::take_events(uint64_t recorded_digest) {
  if (digest_of(events_) != recorded_digest) {
    difference_ = {.kind = ReplayDifference::Kind::kOutcome, .step = summary_.steps};
  }
  count_events();
}

void Replay::count_events() {
  for (const Event& event : events_) {
    if (event.kind == Event::Kind::kToken) ++summary_.output_tokens;
    if (event.kind != Event::Kind::kEnded) continue;
    ++(event.outcome == Outcome::kFinished    ? summary_.finished
       : event.outcome == Outcome::kCancelled ? summary_.cancelled
                                              : summary_.failed);
    const auto found = requests_.find(event.request);
    if (found == requests_.end()) continue;
    for (uint32_t i = 0; i < found->second.count; ++i) sequences_.erase(found->second.first + i);
    requests_.erase(found);
  }
  events_.clear();
}

}  // namespace twostroke
