// RequestExplanation: where a request is, and why it waits, in plain values for people.
//
// Thread-safety: plain values. Scheduler::explain() makes them on the step thread; Engine::explain() from any.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/event.h"
#include "scheduler/request.h"
#include "scheduler/time.h"

namespace twostroke {

// What keeps a sequence from having a row.
enum class WaitFor : uint8_t {
  kNone,                 // nothing: it had a row in the last step, or has finished
  kInbox,                // it came after the last step was decided
  kNoSlot,               // max_running sequences run
  kNoBlocks,             // it needs more blocks than there are: SequenceExplanation::blocks_short
  kStepFull,             // the step's tokens went to others
  kBehindOvertakeBound,  // one before it was overtaken max_overtakes times, and goes first now
  kLeaderPrompt,         // its sibling computes the prompt that they share
  kPrefix,               // another request computes the beginning that both have
  kGaveWay,              // sequences gave way in the last step, and it goes before none of them; perhaps it did itself
};
// "none", "inbox", "no_slot", ...: stable names for programs.
const char* wait_for_name(WaitFor reason);

enum class SequenceActivity : uint8_t {
  kFollowing,  // waits for its leader's prompt, outside the queue
  kWaiting,    // in the queue, never admitted so far
  kPreempted,  // in the queue again, because it had to give up its blocks
  kPrefill,    // runs, with more than one token to compute or in its prompt
  kDecode,     // runs, with one token to compute
  kFinished,
};
// "following", "waiting", "preempted", "prefill", "decode", "finished".
const char* sequence_activity_name(SequenceActivity activity);

struct SequenceExplanation {
  uint32_t index = 0;  // in the request
  SequenceActivity activity = SequenceActivity::kWaiting;
  uint32_t tokens = 0;         // prompt and output so far
  uint32_t computed = 0;       // of them, with keys and values in its blocks
  uint32_t output_tokens = 0;  // of them
  uint32_t blocks = 0;         // held
  WaitFor wait = WaitFor::kNone;
  uint32_t blocks_short = 0;  // kNoBlocks: how many are missing
  uint32_t overtakes = 0;     // how often later ones were admitted while it waited
  // In the queue only: how many sequences stand before it, and how many tokens those have to compute.
  int64_t queue_position = -1;  // -1: not in the queue
  uint64_t queue_tokens_before = 0;
  TimeNs predicted_start_ns = -1;  // from now (forecast.h); -1: not in the queue, or step times are not known yet
};

struct RequestExplanation {
  RequestId id = 0;
  uint64_t step = 0;     // the last one that was not empty
  int32_t priority = 0;  // Request::priority
  uint64_t tenant = 0;   // Request::tenant
  Objectives objectives;
  uint32_t max_tokens = 0;  // of output per sequence, cut to the context
  RequestSummary summary;   // so far; `ended` means nothing
  std::vector<SequenceExplanation> sequences;
};

}  // namespace twostroke
