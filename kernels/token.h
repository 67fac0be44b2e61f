// TokenId: a number of the model's vocabulary. Shared by every layer.
#pragma once

#include <cstdint>

namespace twostroke {

using TokenId = int32_t;

// A log-probability of one candidate token, natural logarithm.
struct TokenLogprob {
  TokenId token = -1;
  float logprob = 0;
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

}  // namespace twostroke
