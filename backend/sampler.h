// Sampler: chooses a row's next token from its logits, on the host; behind accepted drafts, the tokens after it too.
//
// What happens, in this order (that of vLLM's sampler, so that the same settings mean the same):
//   1. log-probabilities that are reported are those of the model's own distribution: log softmax of the raw logits l.
//   2. mask            l = -inf for tokens that may not come next
//   3. logit_bias      l += bias
//   4. penalties       for every token of prompt or output, once:  l = l > 0 ? l / repetition : l * repetition
//                      (CTRL, arXiv:1909.05858); then, for tokens of the output that occurred c > 0 times:
//                      l -= frequency * c;  l -= presence        (OpenAI's API reference)
//   5. temperature     0: the greatest l, ties to the lowest id, and done. Otherwise l = l / temperature
//   6. min_p           keep tokens with p >= min_p * p_max       (arXiv:2407.01082)
//   7. top_k           keep the k most probable, ties to the lowest id
//   8. top_p           of the distribution that is left, keep the most probable tokens, best first, up to and including
//                      the one at which their sum reaches top_p (nucleus sampling, arXiv:1904.09751)
//   9. the draw        by uniform_draw(seed, position of the new token) from what is left, renormalised
//
// A row fails with RowStatus::kNotFinite when a raw logit is NaN or +inf, or when no token has a finite one after
// step 4. A logit of -inf is a token of probability 0.
//
// With drafts: each position is drawn in turn, as it would be in a step of its own. The history (step 4) of the one
// behind i accepted drafts ends with them, and its place (step 9) is i further.
//
// Cost: one pass over the vocabulary for a greedy token, two with top_k or a temperature, three with top_p, and one
// more each for a mask or penalties and for log-probabilities (sampler_math.h has them; tests/bench/sampling measures).
// Nothing sorts it: the k
// best come from a heap or a selection. The nucleus comes from a selection by weight (quickselect) among the tokens
// that can be in it: those lighter than (1 - top_p) / vocab of the total weigh less than 1 - top_p together, so that
// the rest suffices.
//
// Thread-safety: one thread at a time per object; different objects are independent. Memory is kept from call to call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step.h"

namespace twostroke {

class Sampler {
 public:
  explicit Sampler(int32_t vocab_size);

  // Fills `result` for `row`, a sampling row with these drafts, whose `logits` [drafts + 1, vocab] are those behind its
  // history and behind each draft. Requires settings within the ranges of SamplingParams, and tokens within the
  // vocabulary. `result.logprob` is 0 and `result.top` empty where sampling.logprobs is -1; `top` has sampling.logprobs
  // entries otherwise (at most the vocabulary), ties ordered by id.
  // The rank is that of the chosen token; 0 where logprobs is -1.
  void sample(const Row& row, std::span<const TokenId> drafts, std::span<const float> logits, RowResult& result);

  // How probable `token` is by the `logits` [vocab] before it, with the `top_count` most probable tokens (at most the
  // vocabulary). False, with `score` unspecified, when a logit is NaN or +inf, or none is finite.
  bool score(std::span<const float> logits, TokenId token, uint32_t top_count, TokenScore& score);

 private:
  struct Candidate {
    float logit = 0;   // after step 4
    float weight = 0;  // exp((logit - greatest) / temperature)
    TokenId token = 0;
  };
  static bool better(const Candidate& a, const Candidate& b);

  // `accepted`: the drafts between the history and the new token. `drawn` is a RowResult or a SampledToken.
  template <typename Drawn>
  RowStatus draw(const Row& row, std::span<const TokenId> accepted, std::span<const float> logits, Drawn& drawn);
  TokenId choose(const SamplingParams& sampling, uint64_t position, std::span<const float> logits, float greatest);
  std::span<const float> adjust(const Row& row, std::span<const TokenId> accepted, std::span<const float> logits);
  void apply_penalties(const Row& row, std::span<const TokenId> accepted);
  void report(std::span<const float> logits, float greatest, TokenId token, size_t top_count, float& logprob,
              uint32_t& rank, std::vector<TokenLogprob>& top);
  TokenId draw_from_all(std::span<const float> logits, float greatest, const SamplingParams& sampling, double uniform);
  TokenId draw_from_candidates(double uniform) const;
  void collect_top_k(std::span<const float> logits, float greatest, const SamplingParams& sampling);
  void collect_heavy(std::span<const float> logits, float greatest, const SamplingParams& sampling);
  void collect_best(std::span<const float> logits, size_t count);
  void keep_nucleus(double mass);

  size_t vocab_size_;
  std::vector<float> adjusted_;          // [vocab]; of rows whose logits are changed
  std::vector<uint32_t> output_counts_;  // [vocab]; all zero between calls
  std::vector<uint8_t> penalised_;       // [vocab]; all zero between calls
  std::vector<float> weights_;           // [vocab]
  std::vector<double> span_weights_;     // [weight_spans]; a draw skips most of the vocabulary by them
  std::vector<Candidate> candidates_;
};

}  // namespace twostroke
