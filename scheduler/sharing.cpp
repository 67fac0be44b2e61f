// A waiting sequence whose prompt begins like one that is just being computed waits until that beginning is in the
// prefix cache, instead of computing it a second time. Both then have it no later: the step's tokens that the copy
// would have taken go to the original.
//
// What the prefix cache holds of it is looked up first; so the two must agree in the block behind that, which is the
// one that the other has not registered yet: found by the hash that the prefix cache would know it by, and compared
// token by token. It waits for as many blocks as they agree in, and no longer than the other runs and computes. It does
// not wait for one that may itself be kept waiting by others: of a worse level, or, where tenants are served fairly, of
// another tenant.
#include <algorithm>
#include <utility>

#include "scheduler/scheduler_impl.h"

namespace twostroke {
namespace {

// Whether it may wait for what `owner` computes.
bool may_be_awaited(const Sequence& owner, const Sequence& sequence) {
  return owner.state == SequenceState::kRunning && owner.level() <= sequence.level() &&
         owner.request->tenant == sequence.request->tenant;
}

}  // namespace

uint32_t shared_beginning(const Request& first, const Request& second) {
  const bool one_cache = first.use_prefix_cache && first.cache_salt == second.cache_salt;
  if (!one_cache || !reads_prefix_cache(second) || first.tenant != second.tenant || first.priority > second.priority)
    return 0;
  return static_cast<uint32_t>(std::ranges::mismatch(first.prompt, second.prompt).in1 - first.prompt.begin());
}

void Scheduler::Impl::list_in_flight() {
  if (in_flight_listed_) return;
  in_flight_listed_ = true;
  in_flight_.clear();
  for (Sequence* sequence : running_) add_in_flight(*sequence);
}

void Scheduler::Impl::add_in_flight(Sequence& sequence) {
  const uint32_t block = sequence.registered;
  if (sequence.to_go() == 1 || !uses_cache(*sequence.request)) return;
  if ((block + 1) * block_size_ > sequence.length()) return;
  const BlockId parent = block > 0 ? sequence.blocks[block - 1] : kNoBlock;
  const auto tokens = std::span(std::as_const(sequence.tokens)).subspan(block * block_size_, block_size_);
  in_flight_.push_back({hash_block(sequence.request->scope(), parent, tokens), &sequence});
}

bool Scheduler::Impl::still_awaits(Sequence& sequence) {
  if (sequence.awaits == 0) return false;
  list_in_flight();
  const auto owner =
      std::ranges::find_if(in_flight_, [&](const InFlight& entry) { return entry.sequence->id == sequence.awaits; });
  if (owner != in_flight_.end() && may_be_awaited(*owner->sequence, sequence) &&
      owner->sequence->registered < sequence.awaited_blocks) {
    return true;
  }
  sequence.awaits = 0;
  return false;
}

// `hits_` is what the prefix cache has of it.
bool Scheduler::Impl::awaits_another(Sequence& sequence) {
  const LiveRequest& live = *sequence.request;
  const std::span<const TokenId> tokens = sequence.all_tokens();
  const size_t reusable = tokens.size() - 1;
  const size_t begin = hits_.size() * block_size_;
  if (!reads_cache(live) || begin + block_size_ > reusable) return false;
  list_in_flight();
  if (in_flight_.empty()) return false;
  const BlockId parent = hits_.empty() ? kNoBlock : hits_.back();
  const uint64_t hash = hash_block(live.scope(), parent, tokens.subspan(begin, block_size_));
  for (const InFlight& entry : in_flight_) {
    const Sequence& owner = *entry.sequence;
    if (entry.hash != hash || owner.registered != hits_.size() || !may_be_awaited(owner, sequence)) continue;
    if (owner.request->scope() != live.scope() || (!hits_.empty() && owner.blocks[hits_.size() - 1] != parent))
      continue;
    const auto [mine, its] =
        std::ranges::mismatch(tokens.subspan(begin, reusable - begin), std::span(owner.tokens).subspan(begin));
    const auto agreed = static_cast<uint32_t>(mine - tokens.begin()) / block_size_;
    if (agreed <= hits_.size()) continue;
    sequence.awaits = owner.id;
    sequence.awaited_blocks = agreed;
    set_reason(sequence, WaitReason::kPrefix);
    return true;
  }
  return false;
}

}  // namespace twostroke
