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

  // Whether what stood before the stop token that was accepted last is a whole text. False only where a limit of the
  // constraint left nothing but to stop: such a sequence ends as one that has reached its length.
  virtual bool ended_whole() const { return true; }
};

}  // namespace twostroke
