// The sampler's passes over a whole vocabulary, written so that a compiler makes vectors of them.
//
// Thread-safety: pure functions.
#pragma once

#include <span>

#include "kernels/token.h"

namespace twostroke {

struct Greatest {
  TokenId token = -1;  // of the greatest logit, ties to the lowest id; -1 when there is none above -inf
  float logit = 0;     // -inf when token is -1
  bool bad = false;    // NaN or +inf was seen; token and logit then mean nothing
};

// Requires at least one logit.
Greatest find_greatest(std::span<const float> logits);

// weights[i] = exp((logits[i] - greatest) / temperature), within 2e-7 of the exact value relatively, and 0 where that
// is below 1e-37. Returns their sum. Requires logits <= greatest, temperature > 0, and as many weights as logits.
double fill_weights(std::span<const float> logits, float greatest, float temperature, std::span<float> weights);

}  // namespace twostroke
