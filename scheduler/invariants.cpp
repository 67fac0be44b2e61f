// What must hold between any two calls. Slow and thorough: for tests, after every step.
#include <algorithm>
#include <map>

#include "scheduler/scheduler_impl.h"

namespace twostroke {
namespace {

std::string name_of(const Sequence& sequence) {
  return "sequence " + std::to_string(sequence.index) + " of request " + std::to_string(sequence.request->request.id);
}

// One holder of a block: the sequence, and the block's place in its table.
struct Holder {
  const Sequence* sequence;
  size_t place;
};

// Holders of one block agree on everything that its contents depend on, and none of them still writes to it.
std::string check_sharing(BlockId block, const std::vector<Holder>& holders, uint32_t block_size) {
  const Holder& first = holders.front();
  for (const Holder& holder : holders) {
    if (holders.size() == 1) break;
    const std::string what = "block " + std::to_string(block) + ", shared by " + name_of(*first.sequence) + " and " +
                             name_of(*holder.sequence) + ", ";
    if (holder.place != first.place) return what + "has different places in their tables";
    const size_t end = (holder.place + 1) * block_size;
    if (holder.sequence->computed < end) return what + "is still being written";
    const auto& a = first.sequence->tokens;
    const auto& b = holder.sequence->tokens;
    if (a.size() < end || b.size() < end ||
        !std::equal(a.begin(), a.begin() + static_cast<ptrdiff_t>(end), b.begin())) {
      return what + "holds tokens on which they differ";
    }
    const LiveRequest& x = *first.sequence->request;
    const LiveRequest& y = *holder.sequence->request;
    if (&x == &y) continue;
    if (x.scope() != y.scope()) return what + "crosses cache scopes";
    if (!x.request.use_prefix_cache || !y.request.use_prefix_cache) return what + "belongs to one that shares nothing";
  }
  return {};
}

template <typename T>
std::string check_equal(const char* what, T counted, T found) {
  if (counted == found) return {};
  return std::string(what) + " is counted as " + std::to_string(counted) + ", but is " + std::to_string(found);
}

}  // namespace

// Tenants: each is known while it has requests, and counts them and its sequences in the queue.
std::string Scheduler::Impl::check_tenants(const std::vector<const Sequence*>& waiting) const {
  if (std::string error = fairness_.check_invariants(); !error.empty()) return error;
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> counts;  // requests, sequences that wait
  for (const auto& [id, live] : requests_) {
    const uint64_t tenant = live->request.tenant;
    const bool fair = limits_.order == Order::kFair;
    if (live->tenant != (fair ? fairness_.find(tenant) : nullptr)) {
      return "request " + std::to_string(id) + " is charged to another tenant";
    }
    ++counts[tenant].first;
  }
  for (const Sequence* sequence : waiting) ++counts[sequence->request->request.tenant].second;
  std::map<uint64_t, uint32_t> running;
  for (const Sequence* sequence : running_) ++running[sequence->request->request.tenant];
  for (const auto& [id, count] : counts) {
    const Tenant* tenant = fairness_.find(id);
    if (tenant == nullptr) continue;
    if (tenant->requests != count.first || tenant->waiting != count.second || tenant->running != running[id]) {
      return "tenant " + std::to_string(id) + " counts its requests or sequences wrongly";
    }
  }
  return {};
}

std::string Scheduler::Impl::check_invariants() const {
  if (std::string error = pool_.check_invariants(); !error.empty()) return error;
  if (std::string error = cache_.check_invariants(); !error.empty()) return error;

  if (!costs_.coefficients().valid()) return "the cost model has coefficients that no step can have";
  if (budget_.prefill_tokens > limits_.max_step_tokens) return "prefill's budget is more than a step can carry";

  std::map<BlockId, std::vector<Holder>> holders;
  std::vector<const Sequence*> running;
  std::vector<const Sequence*> waiting;
  SchedulerGauges found;
  uint64_t needed_tokens = 0;  // of requests that never started
  uint64_t needed_blocks = 0;
  uint64_t promised = 0;
  uint64_t drafts = 0;
  for (const auto& [id, live] : requests_) {
    if (live->request.id != id) return "request " + std::to_string(id) + " is filed under another id";
    uint32_t live_running = 0;
    uint32_t unfinished = 0;
    bool follows = false;
    for (const Sequence& sequence : live->sequences) {
      const std::string name = name_of(sequence);
      if (sequence.request != live.get()) return name + " points to another request";
      const bool holds_blocks = sequence.state == SequenceState::kRunning;
      if (!holds_blocks && (!sequence.blocks.empty() || sequence.computed != 0 || sequence.imported != 0 ||
                            sequence.planned + sequence.drafts != 0)) {
        return name + " does not run, but holds blocks";
      }
      if (sequence.state != SequenceState::kFinished) ++unfinished;
      if (sequence.state == SequenceState::kFollowing) {
        follows = true;
        ++found.sequences_waiting;
      }
      if ((sequence.state == SequenceState::kWaiting) != (sequence.line != nullptr)) {
        return name + " is in the queue, or not, contrary to its state: the queue does not hold what waits";
      }
      if (sequence.state == SequenceState::kWaiting) {
        waiting.push_back(&sequence);
        ++found.sequences_by_reason[static_cast<size_t>(sequence.reason)];
        if (sequence.overtakes > limits_.max_overtakes) return name + " was overtaken too often";
        if (sequence.waiting_since > clock_) return name + " waits since a moment that has not come yet";
        ++found.sequences_waiting;
      }
      if (!holds_blocks) continue;

      running.push_back(&sequence);
      ++live_running;
      ++found.sequences_running;
      promised += promised_to(sequence);
      const uint32_t written = sequence.computed + sequence.planned;
      if (sequence.blocks.size() != blocks_for(written))
        return name + " holds more or fewer blocks than its tokens need";
      if (sequence.imported > sequence.computed || (sequence.imported > 0 && sequence.planned == 0)) {
        return name + " imports positions that come with no row";
      }
      if (sequence.computed >= sequence.length()) return name + " has nothing left to compute";
      if (written > sequence.length() + sequence.drafts) return name + " plans more tokens than it has";
      if (sequence.drafts > 0) {
        if (sequence.drafts >= sequence.planned || sequence.drafts > limits_.max_draft_tokens) {
          return name + " has more drafts than it may";
        }
        if (sequence.output_count() + sequence.drafts + 1 > live->output_max) {
          return name + " has drafts for which it has no tokens left";
        }
        drafts += sequence.drafts;
      }
      if (sequence.length() > length_max_) return name + " is longer than the context";
      if (sequence.output_count() >= live->output_max) return name + " should have ended: its tokens are used up";
      if (!std::equal(live->request.prompt.begin(), live->request.prompt.end(), sequence.tokens.begin())) {
        return name + " has lost its prompt";
      }
      // What comes with a row is not there before the row has run.
      const uint32_t there = sequence.computed - sequence.imported;
      if (sequence.registered != (uses_cache(*live) ? there / block_size_ : 0)) {
        return name + " has full blocks that the prefix cache should know";
      }
      for (uint32_t i = 0; i < sequence.blocks.size(); ++i) {
        const BlockId block = sequence.blocks[i];
        if (block >= pool_.total()) return name + " holds a block that does not exist";
        holders[block].push_back({&sequence, i});
        if (i >= sequence.registered) continue;
        const auto tokens = std::span(sequence.tokens).subspan(i * block_size_, block_size_);
        if (!cache_.holds(block, live->scope(), i > 0 ? sequence.blocks[i - 1] : kNoBlock, tokens)) {
          return name + " has a block that the prefix cache takes for something else";
        }
      }
    }
    const std::string name = "request " + std::to_string(id);
    if (live->level != live->request.priority && live->level != kAgedLevel) return name + " has a level of its own";
    if (unfinished == 0) return name + " has no sequence left, but has not ended";
    if (unfinished != live->unfinished) return name + " counts its unfinished sequences wrongly";
    if (live_running != live->running) return name + " counts its running sequences wrongly";
    if (live_running > 0 && !live->started) return name + " runs, but never started";
    if (live->prompt_counted > live->prompt_count()) return name + " counts more prompt tokens than it has";
    if (live->prompt_done && live->prompt_counted != live->prompt_count()) {
      return name + " has completed its prompt, but not counted all of it";
    }
    if (live->prompt_done && follows) return name + " has sequences that follow a prompt which is done";
    const SequenceState leader = live->sequences[live->leader].state;
    if (follows && leader != SequenceState::kWaiting && leader != SequenceState::kRunning) {
      return name + " has sequences that follow nobody";
    }
    ++(live_running > 0 ? found.requests_running : found.requests_waiting);
    if (live->need.tokens == 0 || live->need.tokens > live->prompt_count()) return name + " needs what it has not";
    if (live->started) continue;
    found.waiting_prompt_tokens += live->prompt_count();
    needed_tokens += live->need.tokens;
    needed_blocks += live->need.blocks;
  }

  for (const auto& [block, list] : holders) {
    if (pool_.references(block) != list.size()) {
      return "block " + std::to_string(block) + " has " + std::to_string(pool_.references(block)) + " references and " +
             std::to_string(list.size()) + " holders";
    }
    if (std::string error = check_sharing(block, list, block_size_); !error.empty()) return error;
  }
  if (holders.size() != pool_.referenced()) return "there are referenced blocks that no sequence holds";

  const auto older = [](const Sequence* a, const Sequence* b) { return precedes(*a, *b); };
  std::ranges::sort(running, older);
  if (!std::ranges::equal(running, running_)) return "the list of running sequences is not what runs, in order";
  if (running_.size() > limits_.max_running) return "more sequences run than may";
  if (drafts > step_drafts_max_) return "the step has more drafts than it may";
  if (std::string error = waiting_.check_invariants(waiting); !error.empty()) return error;
  if (std::string error = check_tenants(waiting); !error.empty()) return error;
  if (headroom_ > pool_.total() / 2) return "admission keeps more than half of the pool free";

  uint64_t level_tokens = 0;
  uint64_t level_blocks = 0;
  for (const auto& [priority, loads] : waiting_levels_) {
    uint32_t sequences = 0;
    for (const PromptLoad& load : loads) {
      sequences += load.sequences;
      level_tokens += load.tokens;
      level_blocks += load.blocks;
    }
    if (sequences == 0) return "a level of the forecast waits for nobody";
  }
  if (level_tokens != needed_tokens || level_blocks != needed_blocks)
    return "the forecast's levels do not add up to what waits";

  std::string error = check_equal("blocks_promised", blocks_promised_, promised);
  if (error.empty()) error = check_equal("requests_waiting", gauges_.requests_waiting, found.requests_waiting);
  if (error.empty()) error = check_equal("requests_running", gauges_.requests_running, found.requests_running);
  if (error.empty()) error = check_equal("sequences_waiting", gauges_.sequences_waiting, found.sequences_waiting);
  if (error.empty()) error = check_equal("sequences_running", gauges_.sequences_running, found.sequences_running);
  for (size_t i = 0; i < kWaitReasons && error.empty(); ++i) {
    error = check_equal("sequences_by_reason", gauges_.sequences_by_reason[i], found.sequences_by_reason[i]);
  }
  if (error.empty()) {
    error = check_equal("waiting_prompt_tokens", gauges_.waiting_prompt_tokens, found.waiting_prompt_tokens);
  }
  return error;
}

}  // namespace twostroke
