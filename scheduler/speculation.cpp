// Decodes get drafts, when the cost model says that they pay; what the backend made of them is checked and taken.
//
// This comes last in a step's plan: drafts take tokens that nobody wanted, time that no objective forbids, and blocks
// that nobody needs before the next step. Those blocks go back with the commit, so between steps a sequence holds what
// its tokens need, as ever.
#include <algorithm>
#include <limits>

#include "kernels/check.h"
#include "scheduler/cost/step_budget.h"
#include "scheduler/drafts/draft_economics.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {
namespace {

// Tokens that a step takes note of at most, all sequences together: a long prompt is looked through over some steps.
constexpr uint32_t kFollowMax = 4096;

}  // namespace

void Scheduler::Impl::plan_drafts() {
  if (limits_.max_draft_tokens == 0) return;
  StepShape shape;
  for (const Sequence* sequence : step_.planned) {
    add_to_shape(*sequence, targets(*sequence), shape);
  }
  if (shape.decode_rows == 0 || shape.tokens() == limits_.max_step_tokens) return;
  const uint32_t most = limits_.max_draft_tokens;
  const uint32_t limit =
      std::min({limits_.max_step_tokens - shape.tokens(), step_drafts_max_, shape.decode_rows * most});
  const double time_max_ns =
      step_.objective_ns > 0 ? objective_limit_ns(costs_, step_.objective_ns) : std::numeric_limits<double>::infinity();
  DraftEconomics economics(costs_, shape, time_max_ns);
  if (!economics.could_pay(limit)) return;

  draft_worths_.assign(size_t{shape.decode_rows} * most, 0);
  uint32_t follow_left = kFollowMax;
  size_t row = 0;
  for (Sequence* sequence : step_.planned) {
    if (!is_decode(*sequence)) continue;
    const std::span<float> drafts = std::span(draft_worths_).subspan(row++ * most, most);
    economics.add(drafts.first(look_for_drafts(*sequence, follow_left, drafts)));
  }

  DraftEconomics::Choice choice = economics.choose(limit);
  row = 0;
  for (Sequence* sequence : step_.planned) {
    if (!is_decode(*sequence)) continue;
    uint32_t count = 0;
    for (const float worth : std::span(draft_worths_).subspan(row++ * most, most)) {
      const uint32_t level = DraftEconomics::level_of(worth);
      if (worth == 0 || level < choice.level || (level == choice.level && choice.at_level == 0)) break;
      if (level == choice.level) --choice.at_level;
      ++count;
    }
    count = std::min(count, draft_room(*sequence));
    sequence->drafts = count;
    sequence->planned += count;
    hold_blocks(*sequence, sequence->computed + sequence->planned);
  }
}

// As far as the request goes: a draft makes two output tokens possible where one was.
uint32_t Scheduler::Impl::drafts_allowed(const Sequence& sequence) const {
  const LiveRequest& live = *sequence.request;
  const uint32_t output = sequence.output_count();
  if (!live.request.constraints.empty() || live.rules.may_apply_from(output)) return 0;
  return std::min(limits_.max_draft_tokens, live.output_max - output - 1);
}

// Positions behind its row for which it has blocks, or could.
uint32_t Scheduler::Impl::draft_room(const Sequence& sequence) const {
  const uint64_t positions = (sequence.blocks.size() + uint64_t{pool_.available()}) * block_size_;
  return static_cast<uint32_t>(
      std::min<uint64_t>(positions - sequence.computed - sequence.planned, limits_.max_draft_tokens));
}

// Leaves the chances of the drafts that the row could have in `chances`, and says how many there are.
uint32_t Scheduler::Impl::look_for_drafts(Sequence& sequence, uint32_t& follow_left, std::span<float> chances) {
  const LiveRequest& live = *sequence.request;
  const uint32_t count = std::min(drafts_allowed(sequence), draft_room(sequence));
  if (count == 0) return 0;
  Drafter& drafter = sequence.drafter;
  follow_left -=
      drafter.follow(sequence.tokens, live.prompt_count(), live.prompt_count() + live.output_max, follow_left);
  if (drafter.followed() < sequence.length() || !drafter.chances(chances.first(count))) return 0;
  return count;
}

// What is impossible about the tokens behind a row's first.
Status Scheduler::Impl::check_drafts(const Sequence& sequence, std::span<const TokenId> drafts,
                                     const RowResult& result) const {
  if (result.following.size() > drafts.size()) {
    return internal_error("the backend returned " + std::to_string(result.following.size() + 1) +
                          " tokens for a row with " + std::to_string(drafts.size()) + " drafts");
  }
  CHECK(drafts.size() == sequence.drafts);
  TokenId last = result.token;
  for (size_t i = 0; i < result.following.size(); ++i) {
    const TokenId next = result.following[i].token;
    if (last != drafts[i]) {
      return internal_error("the backend went on behind token " + std::to_string(last) + ", which is not the draft " +
                            std::to_string(drafts[i]));
    }
    if (next < 0 || static_cast<uint32_t>(next) >= vocab_size_) return not_in_vocabulary(next);
    last = next;
  }
  return {};
}

// The row's tokens up to a stop token. A row has no more drafts than its sequence has tokens to come.
uint32_t Scheduler::Impl::tokens_to_take(const Sequence& sequence, const RowResult& result) const {
  TokenId last = result.token;
  uint32_t count = 1;
  for (const SampledToken& next : result.following) {
    if (std::ranges::binary_search(sequence.request->request.stop_tokens, last)) break;
    last = next.token;
    ++count;
  }
  return count;
}

}  // namespace twostroke
