// What newcomers have to wait for: the basis of forecasts.
#include <algorithm>

#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {
namespace {

constexpr double kEndMemory = 0.1;  // what the last interval between ends counts for in their mean

}  // namespace

PromptNeed Scheduler::Impl::need_of(const Request& request) const {
  const auto length = static_cast<uint32_t>(request.prompt.size());
  const uint32_t reusable = length - 1;
  std::vector<BlockId> known;
  if (limits_.prefix_cache && reads_prefix_cache(request)) {
    cache_.match({.salt = request.cache_salt}, std::span(request.prompt).first(reusable), known);
  }
  const auto hits = static_cast<uint32_t>(known.size());
  const uint32_t there = std::max(hits * block_size_, std::min(request.remote_tokens, reusable));
  const auto idle = static_cast<uint32_t>(
      std::ranges::count_if(known, [this](BlockId block) { return pool_.references(block) == 0; }));
  PromptNeed need{.length = length, .tokens = length - there, .blocks = blocks_for(length) - hits + idle};
  if (!limits_.prefix_cache) return need;
  for (const RequestId id : newest_) {
    const auto other = requests_.find(id);
    if (other == requests_.end() || other->second->prompt_done) continue;
    spare(need, shared_beginning(other->second->request, request), block_size_);
  }
  return need;
}

PrefillPace Scheduler::Impl::pace_of(StepShape step, uint32_t tokens, bool alone) const {
  PrefillPace pace{.step_tokens = tokens};
  step.prefill_tokens = tokens;
  const auto predict = [&] { return alone ? costs_.predict_undisturbed_ns(step) : costs_.predict_ns(step); };
  pace.token_ns = predict() / tokens;
  pace.position_ns = alone ? costs_.undisturbed_position_ns() : costs_.coefficients().prefill_position_ns;
  step.prefill_tokens = 1;
  pace.short_step_ns = predict();
  return pace;
}

// A request that has never run has come, or has started or ended.
void Scheduler::Impl::count_waiting(const LiveRequest& live, bool waits) {
  const auto level = waiting_levels_.try_emplace(live.request.priority).first;
  PromptLoad& load = level->second[size_of_prompt(live.need.tokens)];
  if (waits) {
    gauges_.waiting_prompt_tokens += live.prompt_count();
    load += load_of(live.need, live.request.n);
    return;
  }
  gauges_.waiting_prompt_tokens -= live.prompt_count();
  load -= load_of(live.need, live.request.n);
  const auto empty = [](const PromptLoad& one) { return one.sequences == 0; };
  if (std::ranges::all_of(level->second, empty)) waiting_levels_.erase(level);
}

// Of the steps' own time: while nothing runs, nothing ends.
void Scheduler::Impl::measure_ends(TimeNs duration_ns) {
  if (duration_ns <= 0) return;
  since_end_ns_ += duration_ns;
  if (ends_ == 0) return;
  const double interval = static_cast<double>(since_end_ns_) / ends_;
  end_interval_ns_ += (interval - end_interval_ns_) * (end_interval_ns_ == 0 ? 1 : kEndMemory);
  since_end_ns_ = 0;
  ends_ = 0;
}

ForecastBasis Scheduler::Impl::forecast_basis() const {
  ForecastBasis basis;
  basis.known = costs_.knows_scale();
  const bool runs = !running_.empty();
  basis.pace_alone = pace_of({}, limits_.max_step_tokens, /*alone=*/true);
  basis.pace = runs ? pace_of(decodes_, std::max(budget_.prefill_tokens, 1U), /*alone=*/false)
                    : pace_of({}, limits_.max_step_tokens, /*alone=*/false);
  basis.step_ns = runs ? step_.counts.predicted_ns : 0;
  uint64_t tokens_to_come = 0;
  for (const Sequence* sequence : running_) {
    tokens_to_come += sequence->request->output_max - sequence->output_count();
    const uint32_t to_go = sequence->to_go() > 1 ? sequence->to_go() - sequence->planned : 0;
    PromptLoad load = load_of({.length = sequence->length(), .tokens = to_go, .blocks = 0}, 0);
    if (sequence->level() == kAgedLevel) {
      basis.aged += load;
      continue;
    }
    // In order of priority and of arrival.
    ForecastLevel& level = basis.level(sequence->priority());
    if (level.first_tokens == 0) level.first_tokens = to_go;
    level.prefilling[size_of_prompt(to_go)] += load;
    ++level.running;
  }
  const auto running = static_cast<uint32_t>(running_.size());
  basis.slots_free = limits_.max_running - std::min(limits_.max_running, running);
  const int64_t room = room_for_admission();
  basis.blocks_room = static_cast<uint32_t>(std::max<int64_t>(room, 0));
  basis.blocks_per_end = runs ? pool_.referenced() / running : 0;
  if (end_interval_ns_ > 0) {
    // A silence longer than the mean says that ends have become rarer.
    basis.end_interval_ns =
        static_cast<TimeNs>(std::max(end_interval_ns_, runs ? static_cast<double>(since_end_ns_) : 0));
  } else if (runs) {
    const double each = static_cast<double>(tokens_to_come) / running * static_cast<double>(basis.step_ns);
    basis.end_interval_ns = static_cast<TimeNs>(std::min(each / running, 1e17));
  }
  for (const auto& [priority, loads] : waiting_levels_) {
    ForecastLevel& level = basis.level(priority);
    for (size_t i = 0; i < kForecastSizes; ++i) level.waiting[i] += loads[i];
  }
  return basis;
}

}  // namespace twostroke
