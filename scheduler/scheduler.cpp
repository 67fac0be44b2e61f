#include "scheduler/scheduler.h"

#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {
namespace {

uint32_t positive(int32_t value, const char* name) {
  CHECK(value > 0, std::string("a backend must have a positive ") + name);
  return static_cast<uint32_t>(value);
}

uint32_t step_drafts(const BackendInfo& info) {
  return std::min(static_cast<uint32_t>(std::max(info.step_drafts_max, 0)), kMaxStepDrafts);
}

// Cut to what a step can carry; and every running sequence gets a token's room in every step.
SchedulerLimits cut(SchedulerLimits limits, const BackendInfo& info) {
  CHECK(limits.max_step_tokens > 0 && limits.max_running > 0 && limits.max_waiting_requests > 0 &&
            limits.max_waiting_tokens > 0 && limits.itl_target_ns >= 0,
        "scheduler limits must be positive");
  limits.max_step_tokens = std::min(limits.max_step_tokens, positive(info.step_tokens_max, "step_tokens_max"));
  limits.max_chunk_tokens = std::min(limits.max_chunk_tokens, limits.max_step_tokens);
  limits.max_running =
      std::min({limits.max_running, limits.max_step_tokens, positive(info.step_rows_max, "step_rows_max")});
  limits.max_draft_tokens = std::min({limits.max_draft_tokens, kMaxDraftTokens, step_drafts(info)});
  return limits;
}

// Where the budget alone decides, a row may be as long as a step.
SchedulerLimits with_chunk_bound(SchedulerLimits limits) {
  if (limits.max_chunk_tokens == 0) limits.max_chunk_tokens = limits.max_step_tokens;
  return limits;
}

CostModel cost_model_for(const SchedulerLimits& limits, const BackendInfo& info) {
  return limits.costs ? CostModel(*limits.costs, CostModel::Prior::kCalibrated)
                      : CostModel(guess_costs(info), CostModel::Prior::kGuess);
}

}  // namespace

Scheduler::Impl::Impl(const SchedulerLimits& wanted, const BackendInfo& info)
    : limits_in_force_(cut(wanted, info)),
      limits_(with_chunk_bound(limits_in_force_)),
      info_(info),
      vocab_size_(positive(info.vocab_size, "vocab_size")),
      block_size_(positive(info.block_size, "block_size")),
      embedding_size_(static_cast<uint32_t>(std::max(info.embedding_size, 0))),
      scores_targets_(info.scores_targets),
      imports_kv_(info.imports_kv),
      context_max_(positive(info.context_max, "context_max")),
      length_max_(static_cast<uint32_t>(
          std::min<uint64_t>(context_max_, uint64_t{positive(info.block_count, "block_count")} * block_size_))),
      step_drafts_max_(step_drafts(info)),
      costs_(cost_model_for(wanted, info)),
      pool_(static_cast<uint32_t>(info.block_count), [this](BlockId block) { cache_.evicted(block); }),
      cache_(pool_, block_size_),
      waiting_(limits_.order) {
  gauges_.blocks_total = pool_.total();
}

Scheduler::Scheduler(const SchedulerLimits& limits, const BackendInfo& info)
    : impl_(std::make_unique<Impl>(limits, info)) {}
Scheduler::~Scheduler() = default;

const SchedulerLimits& Scheduler::limits() const { return impl_->limits_in_force_; }
Status Scheduler::validate(const Request& request) const { return impl_->validate(request); }

// ---- What decisions follow from. Each call goes to the journal, if there is one, before it has any effect, and what
// it decided behind that. A call that is added here, or an argument, is added there too.

void Scheduler::record_to(JournalOutput& output) {
  CHECK(impl_->arrivals_ == 0 && impl_->step_.decided == 0 && impl_->journal_ == nullptr,
        "record_to() comes first, and once");
  impl_->journal_ = std::make_unique<JournalWriter>(output);
  impl_->journal_->scheduler(impl_->limits_in_force_, impl_->info_);
}

Status Scheduler::submit(Request request, TimeNs now) {
  JournalWriter* journal = impl_->journal_.get();
  if (journal != nullptr) journal->submit(request, now);
  Status status = impl_->submit(std::move(request), now);
  if (journal != nullptr) journal->submitted(status.code());
  return status;
}

void Scheduler::cancel(RequestId request, TimeNs now) {
  if (impl_->journal_ != nullptr) impl_->journal_->cancel(request, now);
  impl_->cancel(request, now);
}

void Scheduler::finish_sequence(RequestId request, uint32_t sequence, TimeNs now) {
  if (impl_->journal_ != nullptr) impl_->journal_->finish_sequence(request, sequence, now);
  impl_->finish_sequence(request, sequence, now);
}

void Scheduler::fail_all(const Status& error, TimeNs now) {
  if (impl_->journal_ != nullptr) impl_->journal_->fail_all(error.code(), now);
  impl_->fail_all(error, now);
}

void Scheduler::schedule(TimeNs now, StepPlan& plan, StepCounts& counts) {
  impl_->schedule(now, plan, counts);
  if (impl_->journal_ != nullptr) impl_->journal_->schedule(now, plan, counts, impl_->budget_);
}

void Scheduler::fill_masks(const StepPlan& plan) { impl_->fill_masks(plan); }

void Scheduler::commit(const StepPlan& plan, const StepResult& result, TimeNs now, std::vector<Event>& events) {
  const size_t before = events.size();
  if (impl_->journal_ != nullptr) impl_->record_commit(plan, result, now);
  impl_->commit(plan, result, now, events);
  if (impl_->journal_ != nullptr) impl_->journal_->ended_step(std::span(events).subspan(before));
}

void Scheduler::fail(const StepPlan& plan, const Status& error, TimeNs now, std::vector<Event>& events) {
  const size_t before = events.size();
  if (impl_->journal_ != nullptr) impl_->journal_->fail(error.code(), now);
  impl_->fail(plan, error, now, events);
  if (impl_->journal_ != nullptr) impl_->journal_->ended_step(std::span(events).subspan(before));
}

void Scheduler::learn(const StepShape& shape, TimeNs duration_ns) {
  if (impl_->journal_ != nullptr) impl_->journal_->learn(shape, duration_ns);
  impl_->costs_.learn(shape, duration_ns);
  impl_->measure_ends(duration_ns);
}

void Scheduler::drain_events(std::vector<Event>& events) {
  if (impl_->journal_ != nullptr) impl_->journal_->drain_events();
  impl_->drain_events(events);
}

// ---- What only looks

const CostModel& Scheduler::cost_model() const { return impl_->costs_; }
std::vector<std::optional<RequestExplanation>> Scheduler::explain(std::span<const RequestId> requests) const {
  return impl_->explain(requests);
}
std::optional<RequestExplanation> Scheduler::explain(RequestId request) const {
  return std::move(impl_->explain({&request, 1}).front());
}

ForecastBasis Scheduler::forecast_basis() const { return impl_->forecast_basis(); }
PromptNeed Scheduler::need_of(const Request& request) const { return impl_->need_of(request); }
bool Scheduler::idle() const { return impl_->requests_.empty(); }

SchedulerGauges Scheduler::gauges() const {
  SchedulerGauges gauges = impl_->gauges_;
  gauges.blocks_free = impl_->pool_.free();
  gauges.blocks_cached = impl_->pool_.cached();
  gauges.blocks_referenced = impl_->pool_.referenced();
  // Only a sequence's last blocks are unused in part, and those are its own.
  for (const Sequence* sequence : impl_->running_) {
    gauges.positions_unused += sequence->blocks.size() * impl_->block_size_ - sequence->computed;
  }
  gauges.positions_used = uint64_t{gauges.blocks_referenced} * impl_->block_size_ - gauges.positions_unused;
  gauges.blocks_headroom = impl_->headroom_;
  gauges.prefill_chunk_tokens = impl_->budget_.prefill_tokens;
  gauges.chunk_reason = impl_->budget_.reason;
  gauges.ridge_tokens = impl_->ridge_tokens_;
  gauges.cost_error_ratio = impl_->costs_.error_ratio();
  return gauges;
}

std::string Scheduler::check_invariants() const { return impl_->check_invariants(); }

}  // namespace twostroke
