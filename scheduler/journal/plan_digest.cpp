#include "scheduler/journal/plan_digest.h"

#include <bit>
#include <cstring>

namespace twostroke {
namespace {

// Odd numbers without a pattern: the fractions of pi and of the golden ratio, and two of SplitMix64's.
constexpr uint64_t kFactors[4] = {0x243f6a8885a308d3U, 0x9e3779b97f4a7c15U, 0xbf58476d1ce4e5b9U, 0x94d049bb133111ebU};

// Each number moves the state by a multiplication and a rotation, so that order counts.
class Digest {
 public:
  void add(uint64_t value) { state_ = std::rotl((state_ ^ value) * kFactors[0], 29); }

  // Four lanes side by side: one multiplication waits for nothing but the one before it in its own lane.
  template <typename T>
  void add_array(std::span<const T> values) {
    static_assert(std::has_unique_object_representations_v<T>);
    const auto* bytes = reinterpret_cast<const char*>(values.data());
    size_t left = values.size_bytes();
    uint64_t lanes[4] = {state_, state_ + 1, state_ + 2, state_ + 3};
    for (; left >= sizeof(lanes); left -= sizeof(lanes), bytes += sizeof(lanes)) {
      uint64_t words[4];
      std::memcpy(words, bytes, sizeof(words));
      for (int i = 0; i < 4; ++i) lanes[i] = std::rotl((lanes[i] ^ words[i]) * kFactors[i], 29);
    }
    for (const uint64_t lane : lanes) add(lane);
    for (; left > 0; left -= std::min(left, sizeof(uint64_t)), bytes += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes, std::min(left, sizeof(word)));
      add(word);
    }
    add(values.size());
  }

  uint64_t value() const {
    const uint64_t mixed = (state_ ^ (state_ >> 32)) * kFactors[3];
    return mixed ^ (mixed >> 29);
  }

 private:
  uint64_t state_ = kFactors[1];
};

void add_row(Digest& digest, const Row& row) {
  digest.add(row.sequence);
  digest.add((uint64_t{row.token_begin} << 32) | row.token_count);
  digest.add((uint64_t{row.position} << 32) | row.block_begin);
  digest.add((uint64_t{row.block_count} << 32) | row.prompt_count);
  digest.add((row.history.size() << 32) | (row.targets.size() << 8) | (uint64_t{row.target_logprobs} << 4) |
             (static_cast<uint64_t>(row.pooling) << 2) | (row.mask.empty() ? 0U : 2U) | (row.samples ? 1U : 0U));
  digest.add(row.draft_count);
  digest.add(row.imported.size());
  if (row.sampling != nullptr) digest.add(row.sampling->seed);
}

void add_counts(Digest& digest, const StepCounts& counts) {
  // Which drafts are accepted is not known yet.
  const auto& [shape, predicted, computed, cached, remote, recomputed, sampled, drafts, accepted, scored, preemptions,
               pushed, queries] = counts;
  const auto& [prefill_rows, prefill_tokens, decode_rows, decode_tokens, logit_tokens, prefill_context, decode_context,
               prefill_positions, decode_positions] = shape;
  digest.add(static_cast<uint64_t>(predicted));
  for (const uint64_t count : {prefill_context, decode_context, prefill_positions, decode_positions}) digest.add(count);
  for (const uint32_t count : {prefill_rows, prefill_tokens, decode_rows, decode_tokens, logit_tokens, computed, cached,
                               remote, recomputed, sampled, drafts, scored, preemptions, pushed, queries}) {
    digest.add(count);
  }
}

void add_summary(Digest& digest, const RequestSummary& summary) {
  const auto& [submitted, first_scheduled, first_token, ended, prompt, cached, remote, sequences, output, recomputed,
               preemptions, objectives] = summary;  // the last are what was asked, not what was decided
  for (const TimeNs time : {submitted, first_scheduled, first_token, ended}) digest.add(static_cast<uint64_t>(time));
  for (const uint32_t count : {prompt, cached, remote, sequences, output, recomputed, preemptions}) digest.add(count);
}

}  // namespace

uint64_t digest_of(const StepPlan& plan, const StepCounts& counts, const StepBudget& budget) {
  Digest digest;
  digest.add(plan.step);
  digest.add_array(std::span<const TokenId>(plan.tokens));
  digest.add_array(std::span<const BlockId>(plan.blocks));
  digest.add_array(std::span<const BlockCopy>(plan.copies));
  for (const Row& row : plan.rows) add_row(digest, row);
  digest.add(plan.rows.size());
  add_counts(digest, counts);
  digest.add((uint64_t{budget.prefill_tokens} << 8) | static_cast<uint64_t>(budget.reason));
  return digest.value();
}

uint64_t digest_of(std::span<const Event> events) {
  Digest digest;
  for (const Event& event : events) {
    digest.add((event.request << 8) ^ static_cast<uint64_t>(event.kind));
    digest.add((uint64_t{event.sequence} << 32) ^ static_cast<uint32_t>(event.token));
    digest.add(static_cast<uint64_t>(event.time));
    digest.add(static_cast<uint64_t>(event.gap_ns));
    digest.add((static_cast<uint64_t>(event.finish_reason) << 16) | (static_cast<uint64_t>(event.outcome) << 8) |
               (event.same_step ? 0x80U : 0U) | static_cast<uint64_t>(event.error.code()));
    if (event.kind == Event::Kind::kEnded) add_summary(digest, event.summary);
  }
  digest.add(events.size());
  return digest.value();
}

}  // namespace twostroke
