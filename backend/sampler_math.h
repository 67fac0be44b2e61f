// The sampler's passes over a whole vocabulary, written so that a compiler makes vectors of them. Results are the
// same bits on every processor.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
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

inline constexpr size_t kWeightSpan = 256;  // tokens whose weights are summed together
constexpr size_t weight_spans(size_t tokens) { return (tokens + kWeightSpan - 1) / kWeightSpan; }

// weights[i] = exp((logits[i] - greatest) / temperature), within 2e-7 of the exact value relatively, and 0 where that
// is below 1e-37 or below `least`. span_sums [weight_spans]: the sums of kWeightSpan weights each. Returns the sum of
// all. Requires logits <= greatest, temperature > 0, and as many weights as logits.
double fill_weights(std::span<const float> logits, float greatest, float temperature, float least,
                    std::span<float> weights, std::span<double> span_sums);

// The first index from `begin` on with numbers[index] >= bound; their count where there is none.
size_t find_at_least(std::span<const float> numbers, size_t begin, float bound);

// How many numbers are greater than `bound`.
size_t count_above(std::span<const float> numbers, float bound);

// out[i] = logits[i] where bit i of the mask is set (bit i % 32 of word i / 32), -inf elsewhere.
void mask_logits(std::span<const float> logits, std::span<const uint32_t> mask, std::span<float> out);

}  // namespace twostroke
