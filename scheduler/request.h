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

constexpr uint32_t kMaxSequences = 128;           // of one request, as in the OpenAI API
constexpr uint32_t kMaxAllowedTokens = 1U << 18;  // of one request
constexpr uint32_t kMaxBadWords = 1024;           // of one request
constexpr uint32_t kMaxBadWordTokens = 64;        // of one bad word
constexpr double kTenantWeightMin = 0.01;
constexpr double kTenantWeightMax = 100;
constexpr int32_t kMaxPromptLogprobs = 20;  // most probable tokens reported for each prompt token

// What a request was promised; 0: nothing.
struct Objectives {
  TimeNs ttft_ns = 0;  // from submit to its first token: one that cannot be met is refused at once (forecast.h)
  TimeNs tpot_ns = 0;  // between two tokens of a sequence: steps that it decodes in are kept below it (step_budget.h)
  friend bool operator==(const Objectives&, const Objectives&) = default;
};

struct Request {
  RequestId id = 0;                  // chosen by the caller, unique for the life of the scheduler
  std::vector<TokenId> prompt;       // at least one token
  uint32_t max_tokens = 16;          // output tokens per sequence at most; at least 1; cut to what the context leaves
  uint32_t n = 1;                    // sequences; at most kMaxSequences
  SamplingParams sampling;           // sequence i draws with the seed sequence_seed(sampling.seed, i)
  std::vector<TokenId> stop_tokens;  // any of these ends a sequence; sorted; the stop token itself is an event's token
  uint64_t cache_salt = 0;           // the prefix cache is shared only between requests of equal salt
  bool use_prefix_cache = true;      // false: neither reads nor fills the prefix cache

  // How many tokens of the prompt, from the first on, have keys and values that another server computed and that come
  // with the request (prefill there, decode here). They enter the request's blocks when it is admitted, and count as
  // remote_tokens; only the rest is computed, the last token always. Once only: after a preemption they are computed
  // again like everything else. 0 unless the backend imports (BackendInfo::imports_kv); at most the prompt's length.
  uint32_t remote_tokens = 0;

  // Which tokens may come, besides what the constraints say (token_rules.h). A request that leaves itself no token
  // fails when that happens.
  std::vector<TokenId> allowed_tokens;  // no others, stop tokens included; ascending, each once; empty: all
  // Token sequences that may not come: the last token of one is banned while the sequence, prompt and output, ends with
  // the rest of it. One of a single token is always banned.
  std::vector<std::vector<TokenId>> bad_words;
  // Stop tokens are banned before so many output tokens; at most max_tokens. Where a constraint lets only stop tokens
  // come, its text is complete: then they may come earlier.
  uint32_t min_tokens = 0;

  // The log-probabilities of the prompt, in one event of their own (Event::Kind::kPrompt); counts as
  // SamplingParams::logprobs does, at most kMaxPromptLogprobs. All of the prompt is computed for it: the prefix cache
  // is filled, but not read.
  int32_t prompt_logprobs = -1;

  // Not kNone: nothing is sampled, and the request ends with its embedding as soon as its prompt is computed. n is 1,
  // and what is about output stays at its default, max_tokens aside, which means nothing.
  Pooling pooling = Pooling::kNone;

  // The lower goes first, strictly: see Scheduler.
  int32_t priority = 0;
  Objectives objectives;

  // Whom the request is served for, where service is shared fairly (order.h): any number that tells tenants apart. The
  // weight is the tenant's share relative to the others'; of several requests the last one's holds.
  uint64_t tenant = 0;
  double tenant_weight = 1;  // kTenantWeightMin to kTenantWeightMax

  // One constraint per sequence, or empty when unconstrained.
  std::vector<std::unique_ptr<TokenConstraint>> constraints;
};

// Whether it looks for the beginning of its prompt in the prefix cache: not where every position must be computed.
inline bool reads_prefix_cache(const Request& request) {
  return request.use_prefix_cache && request.prompt_logprobs < 0 && request.pooling != Pooling::kMean;
}

// With how many tokens both prompts begin that the second need not compute when the first has: 0 where it does not look
// for them, does not share the first's cache, or would not wait for it (another tenant, or one that comes later).
uint32_t shared_beginning(const Request& first, const Request& second);

// The seed of sequence `index` of a request: the request's own for the first, mixed with the index for the others.
uint64_t sequence_seed(uint64_t seed, uint32_t index);

}  // namespace twostroke
