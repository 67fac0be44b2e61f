// Event: what a step did for a request, on its way to the I/O side.
//
// Every accepted request gets exactly one terminal event (kEnded), and nothing after it. Before it, each of its
// sequences gets its tokens in order and, unless the request is cancelled or fails first, exactly one
// kSequenceFinished. A request with prompt_logprobs gets one kPrompt before its first token. One that pools gets kEnded
// alone.
//
// Memory: an event is small, but for kPrompt, which holds (prompt_logprobs + 4) * 8 bytes for each prompt token, and
// kEnded of a request that pools, with 4 bytes for each number of the embedding. So a request's own limits bound both:
// the context, kMaxPromptLogprobs, and the model's size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/status.h"
#include "kernels/token.h"
#include "scheduler/request.h"
#include "scheduler/time.h"

namespace twostroke {

enum class FinishReason : uint8_t {
  kStop,    // a stop token, or the I/O side found a stop string
  kLength,  // max_tokens or the context is used up
};

enum class Outcome : uint8_t {
  kFinished,   // every sequence finished
  kCancelled,  // by cancel()
  kFailed,     // see error
};

// When things happened to a request, and what it used. Filled for kEnded.
struct RequestSummary {
  TimeNs submitted = 0;
  TimeNs first_scheduled =
      -1;                   // when it first took part in a step; -1: never. Queue time = first_scheduled - submitted
  TimeNs first_token = -1;  // when its first token was committed; -1: never
  TimeNs ended = 0;
  uint32_t prompt_tokens = 0;
  uint32_t cached_tokens = 0;      // of the prompt, found in the prefix cache (counted once, at admission)
  uint32_t remote_tokens = 0;      // of the prompt, computed elsewhere: Request::remote_tokens
  uint32_t sequences = 1;          // the request's n
  uint32_t output_tokens = 0;      // of all sequences
  uint32_t recomputed_tokens = 0;  // work done again: see StepCounts
  uint32_t preemptions = 0;
  Objectives objectives;  // the request's own; without one for tokens, the scheduler's (SchedulerLimits::itl_target_ns)
};

struct Event {
  enum class Kind : uint8_t { kPrompt, kToken, kSequenceFinished, kEnded };
  Kind kind = Kind::kToken;
  RequestId request = 0;
  uint32_t sequence = 0;  // index in the request; kToken and kSequenceFinished

  // kPrompt: of every prompt token but the first, given those before it; entry i is of token i + 1.
  std::vector<TokenScore> prompt;

  // kToken
  TokenId token = -1;
  float logprob = 0;
  uint32_t rank = 0;  // 1: the most probable; 0: sampling.logprobs is -1, or the backend does not know
  std::vector<TokenLogprob> top;
  TimeNs time = 0;     // when the step that made it was committed
  TimeNs gap_ns = -1;  // since the sequence's token before; -1 for its first, 0 with same_step
  // It came in the same step as the sequence's token before, because that was an accepted draft. Both are there at the
  // same moment, and a client has them at once: the time between them is 0, and the whole wait is that of the first.
  bool same_step = false;

  // kSequenceFinished
  FinishReason finish_reason = FinishReason::kStop;

  // kEnded
  Outcome outcome = Outcome::kFinished;
  Status error;  // kFailed only
  RequestSummary summary;
  std::vector<float> embedding;  // of a request that pools and has finished; as the model gives it, not normalised
};

}  // namespace twostroke
