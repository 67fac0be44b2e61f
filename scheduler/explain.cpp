#include "scheduler/explain.h"

#include <algorithm>
#include <unordered_map>

#include "scheduler/scheduler_impl.h"

namespace twostroke {

const char* wait_for_name(WaitFor reason) {
  switch (reason) {
    case WaitFor::kNone:
      return "none";
    case WaitFor::kInbox:
      return "inbox";
    case WaitFor::kNoSlot:
      return "no_slot";
    case WaitFor::kNoBlocks:
      return "no_blocks";
    case WaitFor::kStepFull:
      return "step_full";
    case WaitFor::kBehindOvertakeBound:
      return "behind_overtake_bound";
    case WaitFor::kLeaderPrompt:
      return "leader_prompt";
    case WaitFor::kPrefix:
      return "prefix";
    case WaitFor::kGaveWay:
      return "gave_way";
  }
  return "none";
}

const char* sequence_activity_name(SequenceActivity activity) {
  switch (activity) {
    case SequenceActivity::kFollowing:
      return "following";
    case SequenceActivity::kWaiting:
      return "waiting";
    case SequenceActivity::kPreempted:
      return "preempted";
    case SequenceActivity::kPrefill:
      return "prefill";
    case SequenceActivity::kDecode:
      return "decode";
    case SequenceActivity::kFinished:
      return "finished";
  }
  return "finished";
}

// One walk through the queue, as far as the last sequence that is asked for.
std::vector<std::optional<RequestExplanation>> Scheduler::Impl::explain(std::span<const RequestId> requests) const {
  std::vector<std::optional<RequestExplanation>> explanations(requests.size());
  std::unordered_map<const Sequence*, SequenceExplanation*> queued;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto found = requests_.find(requests[i]);
    if (found == requests_.end()) continue;
    const LiveRequest& live = *found->second;
    RequestExplanation& explanation = explanations[i].emplace();
    explanation.id = live.request.id;
    explanation.step = step_.number;
    explanation.priority = live.request.priority;
    explanation.tenant = live.request.tenant;
    explanation.objectives = live.request.objectives;
    explanation.max_tokens = live.pools() ? 0 : live.output_max;
    explanation.summary = live.summary;
    explanation.sequences.reserve(live.sequences.size());
    for (const Sequence& sequence : live.sequences) {
      SequenceExplanation& one = explanation.sequences.emplace_back(explain_sequence(sequence));
      if (sequence.state == SequenceState::kWaiting) queued.emplace(&sequence, &one);
    }
  }
  const ForecastBasis basis = forecast_basis();
  int64_t position = 0;
  PromptLoad waiting;  // before the next
  bool behind_bound = false;
  if (queued.empty()) return explanations;
  for (const Sequence* sequence : waiting_.listed()) {
    if (queued.empty()) break;
    if (const auto found = queued.find(sequence); found != queued.end()) {
      found->second->queue_position = position;
      found->second->queue_tokens_before = waiting.tokens;
      if (basis.known) {
        ForecastRequest request{.before = running_before(basis, sequence->priority()),
                                .gives_way = gives_way_to(basis, sequence->priority()),
                                .own = need_of(*sequence)};
        request.before += waiting;
        found->second->predicted_start_ns = forecast(basis, request).start_ns;
      }
      if (behind_bound && found->second->wait != WaitFor::kInbox) found->second->wait = WaitFor::kBehindOvertakeBound;
      queued.erase(found);
    }
    ++position;
    waiting += load_of(need_of(*sequence), 1);
    behind_bound |= limits_.max_overtakes > 0 && sequence->overtakes >= limits_.max_overtakes;
  }
  return explanations;
}

// As far as known when it entered the queue: one that has run before may find some of its blocks again.
PromptNeed Scheduler::Impl::need_of(const Sequence& sequence) const {
  if (!sequence.request->started) return sequence.request->need;
  return {.length = sequence.length(), .tokens = sequence.to_go(), .blocks = blocks_for(sequence.length())};
}

SequenceExplanation Scheduler::Impl::explain_sequence(const Sequence& sequence) const {
  SequenceExplanation one;
  one.index = sequence.index;
  one.tokens = sequence.length();
  one.computed = sequence.computed;
  one.output_tokens = sequence.output_count();
  one.blocks = static_cast<uint32_t>(sequence.blocks.size());
  one.overtakes = sequence.overtakes;
  switch (sequence.state) {
    case SequenceState::kFollowing:
      one.activity = SequenceActivity::kFollowing;
      one.wait = WaitFor::kLeaderPrompt;
      break;
    case SequenceState::kWaiting:
      one.activity = sequence.epoch > 0 ? SequenceActivity::kPreempted : SequenceActivity::kWaiting;
      explain_wait(sequence, one);
      break;
    case SequenceState::kRunning:
      one.activity = sequence.to_go() == 1 && sequence.computed >= sequence.request->prompt_count()
                         ? SequenceActivity::kDecode
                         : SequenceActivity::kPrefill;
      explain_pause(sequence, one);
      break;
    case SequenceState::kFinished:
      one.activity = SequenceActivity::kFinished;
      break;
  }
  return one;
}

// What would keep it from starting now, in the order in which admission asks.
void Scheduler::Impl::explain_wait(const Sequence& sequence, SequenceExplanation& one) const {
  if (sequence.queued_after == step_.decided) {
    one.wait = WaitFor::kInbox;
    return;
  }
  // What an earlier step saw may be over; a slot is asked for first.
  const bool no_slot = running_.size() >= limits_.max_running;
  if (sequence.reason == WaitReason::kPrefix && (!no_slot || sequence.looked == looks_)) {
    one.wait = WaitFor::kPrefix;
    return;
  }
  if (no_slot) {
    one.wait = WaitFor::kNoSlot;
    return;
  }
  const bool looked_at = sequence.blocks_needed > 0 && one.activity == SequenceActivity::kWaiting;
  const uint32_t needed = looked_at ? sequence.blocks_needed : blocks_for(sequence.length());
  const auto room = static_cast<uint32_t>(std::max<int64_t>(room_for_admission(), 0));
  const bool gave_way = sequence.reason == WaitReason::kGaveWay && sequence.looked == looks_;
  one.wait = needed > room ? WaitFor::kNoBlocks : gave_way ? WaitFor::kGaveWay : WaitFor::kStepFull;
  one.blocks_short = needed - std::min(needed, room);
}

// A running sequence without a row in the last step: others had the tokens, or it could not get a block.
void Scheduler::Impl::explain_pause(const Sequence& sequence, SequenceExplanation& one) const {
  if (sequence.row_step == step_.number) return;
  const bool needs_block = sequence.blocks.size() * block_size_ == sequence.computed;
  one.wait = needs_block && pool_.available() == 0 ? WaitFor::kNoBlocks : WaitFor::kStepFull;
  if (one.wait == WaitFor::kNoBlocks) one.blocks_short = 1;
}

}  // namespace twostroke
