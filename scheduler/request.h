// Request: what a client asked for, in tokens. Immutable once submitted.
//
// A request becomes `n` sequences that share the prompt's blocks. Text, JSON and sockets are unknown here.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/step.h"
#include "kernels/token.h"
#include "scheduler/time.h"
#include "scheduler/token_constraint.h"

namespace twostroke {

using RequestId = uint64_t;

constexpr uint32_t kMaxSequences = 128;  // of one request, as in the OpenAI API

struct Request {
  RequestId id = 0;                  // chosen by the caller, unique for the life of the scheduler
  std::vector<TokenId> prompt;       // at least one token
  uint32_t max_tokens = 16;          // output tokens per sequence at most; at least 1; cut to what the context leaves
  uint32_t n = 1;                    // sequences; at most kMaxSequences
  SamplingParams sampling;           // sequence i draws with the seed sequence_seed(sampling.seed, i)
  std::vector<TokenId> stop_tokens;  // any of these ends a sequence; sorted; the stop token itself is an event's token
  uint64_t cache_salt = 0;           // the prefix cache is shared only between requests of equal salt
  bool use_prefix_cache = true;      // false: neither reads nor fills the prefix cache
  // One constraint per sequence, or empty when unconstrained.
  std::vector<std::unique_ptr<TokenConstraint>> constraints;
};

// The seed of sequence `index` of a request: the request's own for the first, mixed with the index for the others.
uint64_t sequence_seed(uint64_t seed, uint32_t index);

}  // namespace twostroke
