// Which tokens count as what. Every prompt token of a request is counted once, as computed (computed_tokens), as cached
// (cached_tokens) or as computed elsewhere (remote_tokens), by whichever of its sequences gets there first:
// LiveRequest::prompt_counted is how far that has come. So for every request whose prompt was completed
//
//     computed_tokens + cached_tokens + remote_tokens == prompt_tokens
//
// exactly, whatever was preempted, forked or found again. What is computed below that mark, or below a sequence's own
// high-water mark in its output, is work done again. The one exception is the last prompt token, which every sequence
// of a request computes for itself, for its own first sample: that is nobody's waste and nobody's prompt.
#include <algorithm>

#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::count_admission(const Sequence& sequence, uint32_t cached_tokens, uint32_t imported_tokens) {
  LiveRequest& live = *sequence.request;
  if (reads_cache(live) && !live.looked_up) {
    live.looked_up = true;
    step_.counts.prefix_queries += live.prompt_count();
  }
  // Moves the mark to `end` of the prompt; how many tokens that counts.
  const auto count_to = [&live](uint32_t end) {
    const uint32_t fresh = std::max(std::min(end, live.prompt_count()), live.prompt_counted) - live.prompt_counted;
    live.prompt_counted += fresh;
    return fresh;
  };
  const uint32_t cached = count_to(cached_tokens);
  live.summary.cached_tokens += cached;
  step_.counts.cached_tokens += cached;
  const uint32_t remote = count_to(cached_tokens + imported_tokens);
  live.summary.remote_tokens += remote;
  step_.counts.remote_tokens += remote;
}

// Its row, of which so many tokens are scored.
void Scheduler::Impl::add_to_shape(const Sequence& sequence, uint32_t targets, StepShape& shape) const {
  const uint64_t begin = sequence.computed;
  const uint64_t end = begin + sequence.planned;
  // Position p is read by attention together with the p before it.
  const uint64_t context = (begin + 1 + end) * sequence.planned / 2;
  if (is_decode(sequence)) {
    ++shape.decode_rows;
    shape.decode_tokens += sequence.planned;
    shape.decode_context += context;
    shape.decode_positions += end;
  } else {
    ++shape.prefill_rows;
    shape.prefill_tokens += sequence.planned;
    shape.prefill_context += context;
    shape.prefill_positions += end;
  }
  shape.logit_tokens += (samples(sequence) ? sequence.drafts + 1 : 0) + targets;
}

// Drafts are no work that was asked for: of these the counts below say nothing.
void Scheduler::Impl::count_row(const Sequence& sequence, const Row& row) {
  LiveRequest& live = *sequence.request;
  StepCounts& counts = step_.counts;
  const auto scored = static_cast<uint32_t>(row.targets.size());
  add_to_shape(sequence, scored, counts.shape);
  if (row.samples) ++counts.sampled_tokens;
  counts.scored_tokens += scored;
  counts.draft_tokens += sequence.drafts;

  const uint32_t begin = sequence.computed;
  const uint32_t end = begin + sequence.planned - sequence.drafts;
  const uint32_t prompt = live.prompt_count();
  const uint32_t prompt_end = std::min(end, prompt);
  uint32_t again = 0;
  if (begin < prompt_end) {
    const uint32_t fresh_begin = std::clamp(live.prompt_counted, begin, prompt_end);
    counts.computed_tokens += prompt_end - fresh_begin;
    again = fresh_begin - begin;
    const bool first_sample = fresh_begin == prompt && sequence.computed_max < prompt;
    if (first_sample) --again;
    live.prompt_counted = std::max(live.prompt_counted, prompt_end);
  }
  const uint32_t output_begin = std::max(begin, prompt);
  const uint32_t known_end = std::min(end, sequence.computed_max);
  if (output_begin < known_end) again += known_end - output_begin;
  counts.recomputed_tokens += again;
  live.summary.recomputed_tokens += again;
}

}  // namespace twostroke
