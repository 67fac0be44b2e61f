// TokenConstraint: which tokens may come next in one sequence. Grammars implement it in server/text.
//
// Thread-safety: used by the step thread only, once the request is submitted.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/token.h"

namespace twostroke {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Sets bit t of word t / 32 for every token t that may come next; `mask` has (vocabulary + 31) / 32 words, all zero.
  // The request's stop tokens are allowed exactly where the text may end. Allows at least one token until a stop token
  // was accepted.
  virtual void fill_mask(std::span<uint32_t> mask) = 0;

  // The sequence has grown by `token`, which fill_mask() allowed.
  virtual void accept(TokenId token) = 0;
};

}  // namespace twostroke
