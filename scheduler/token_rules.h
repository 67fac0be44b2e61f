// TokenRules: what a request's own rules let come next in its sequences: allowed_tokens, bad_words and min_tokens, and
// the constraint's word combined with theirs. It writes the masks that backends get; a backend knows no rule.
//
// A token may come when all of these agree
//   - the sequence's TokenConstraint, where there is one;
//   - allowed_tokens, where there are any; stop tokens are no exception;
//   - every bad word: its last token is banned while the sequence ends with the rest of it. Prompt and output are one
//     sequence here: a word that the prompt has begun may not be completed either;
//   - min_tokens: no stop token before so many output tokens. Where a constraint and the rules above leave stop tokens
//     alone, the constraint's text is complete, and min_tokens gives way: nothing else could follow.
//
// Cost: nothing for a request without rules. Otherwise one pass over the mask's words for each sampled row, and a look
// at the end of the sequence for each bad word of several tokens. Rules that have nothing to say of a row (min_tokens
// reached, no bad word begun) need no mask.
//
// Ownership: borrows the request, which stays where it is. Thread-safety: immutable; step thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/status.h"
#include "scheduler/request.h"

namespace twostroke {

// What is wrong with a request's rules: kInvalidArgument, naming the field. The bounds are those of request.h.
Status validate_rules(const Request& request, uint32_t vocab_size);

class TokenRules {
 public:
  TokenRules() = default;
  // Requires validate_rules() to be OK.
  TokenRules(const Request& request, uint32_t vocab_size);

  // Whether the rules ban anything behind `tokens`, of which `output_count` are output.
  bool apply_to(std::span<const TokenId> tokens, uint32_t output_count) const;

  // Whether the rules can ban anything behind this or any later token.
  bool may_apply_from(uint32_t output_count) const;

  // Writes what may come behind `tokens` into `mask` [(vocabulary + 31) / 32]; `constraint` may be null. False: nothing
  // may.
  bool fill_mask(std::span<const TokenId> tokens, uint32_t output_count, TokenConstraint* constraint,
                 std::span<uint32_t> mask) const;

 private:
  void ban_stop_tokens(bool may_give_way, std::span<uint32_t> mask) const;

  const Request* request_ = nullptr;
  uint32_t vocab_size_ = 0;
  std::vector<uint32_t> base_;                   // allowed_tokens without bad words of one token; empty: all tokens
  std::vector<std::span<const TokenId>> words_;  // bad words of several tokens
};

}  // namespace twostroke
