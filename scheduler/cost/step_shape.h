// StepShape: what a step is made of, as far as its time and its work depend on it. The cost model predicts from it,
// phase accounting counts from it.
//
// A row of one token whose sequence was otherwise computed and past its prompt is a decode; every other row belongs to
// prefill, with all its tokens, whether they are computed for the first time or again. Thread-safety: plain values.
#pragma once

#include <cstdint>

namespace twostroke {

struct StepShape {
  uint32_t prefill_rows = 0;
  uint32_t prefill_tokens = 0;  // of those rows
  uint32_t decode_rows = 0;
  uint32_t decode_tokens = 0;  // of those rows; one each, and drafts where there are any
  uint32_t logit_tokens = 0;   // whose logits are computed: tokens that sample, and prompt tokens that are scored
  // Positions that attention reads: the token at position p reads p + 1. Summed over tokens.
  uint64_t prefill_context = 0;
  uint64_t decode_context = 0;
  // Positions of the KV cache that a row's last token attends to, summed over rows: what must be read at least, since
  // the tokens of a row can share a read.
  uint64_t prefill_positions = 0;
  uint64_t decode_positions = 0;

  uint32_t tokens() const { return prefill_tokens + decode_tokens; }
  friend bool operator==(const StepShape&, const StepShape&) = default;
};

}  // namespace twostroke
