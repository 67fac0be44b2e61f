// FakeModel: next tokens that follow from a chain value (fake_kv.h) as a real model's follow from its hidden state.
//
// Its distribution, for a vocabulary of V tokens: eight distinct tokens chosen by the chain value have the logits
// 8, 7.3, 6.6, ... (each half as probable as the one before); every other token has the logit -8. So the best token has
// a probability of about a half, log-probabilities add up to 1, and "the most probable" is unique.
//
// Settings act in the order and by the formulas of backend/sampler.h, on the eight, the tokens with a bias, and one of
// the others (the first that the mask allows, from a place that the chain value chooses). The rest of the tail, of
// probability e^-16 each, is never drawn.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/step.h"

namespace twostroke {

class FakeModel {
 public:
  explicit FakeModel(int32_t vocab_size) : vocab_size_(static_cast<uint32_t>(vocab_size)) {}

  // Chooses the token behind a sampling row whose last token left `chain`, and fills `result`.
  void sample(uint64_t chain, const Row& row, RowResult& result);
  // The same, with the choice made already: its log-probability and the most probable tokens. `token` is in range.
  void report(uint64_t chain, TokenId token, const SamplingParams& sampling, RowResult& result);
  // How probable `token`, in range, is behind `chain`, with the `top_count` most probable tokens.
  void score(uint64_t chain, TokenId token, uint32_t top_count, TokenScore& score);
  // Adds the hidden state behind `chain` to `sum`: numbers in [-1, 1), as many as there is room for.
  static void add_state(uint64_t chain, std::span<double> sum);

 private:
  struct Candidate {
    TokenId token = -1;
    double logit = 0;
  };
  void rank(uint64_t chain);
  bool is_candidate(TokenId token) const;
  double own_logit(TokenId token) const;
  void add_tail_token(uint64_t chain, std::span<const uint32_t> mask);
  void apply_penalties(const Row& row);
  TokenId draw(const SamplingParams& sampling, uint64_t position);

  uint32_t vocab_size_;
  std::vector<TokenId> ranked_;        // the model's own best, best first
  std::vector<Candidate> candidates_;  // what may be drawn, with the settings applied
};

}  // namespace twostroke
