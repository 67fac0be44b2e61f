// Sequence: one stream of tokens of a request, and what the scheduler knows of it. LiveRequest: an accepted request
// with its sequences. Both belong to the Scheduler; nothing outside this directory sees them.
//
//     submit --> kWaiting (the leader) --admit--> kRunning --end--> kFinished
//                   ^   ^                            |
//                   |   +----------preempt-----------+
//     kFollowing ---+  when the leader has computed the prompt, or has ended before it did
//     (its siblings)
//
// finish_sequence(), cancel() and failures end a sequence in every state.
//
// Thread-safety: plain values, step thread only.
#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/set_hook.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/step.h"
#include "scheduler/blocks/prefix_cache.h"
#include "scheduler/cost/forecast.h"
#include "scheduler/drafts/drafter.h"
#include "scheduler/event.h"
#include "scheduler/order/fairness.h"
#include "scheduler/order/order.h"
#include "scheduler/request.h"
#include "scheduler/token_rules.h"

namespace twostroke {

enum class SequenceState : uint8_t {
  kFollowing,  // waits for its leader's prompt; not in the queue
  kWaiting,    // in the queue, holds no blocks
  kRunning,    // holds blocks for its computed tokens
  kFinished,
};

struct LiveRequest;
struct QueueLine {};  // SequenceQueue's own

struct Sequence {
  LiveRequest* request = nullptr;
  SequenceId id = 0;
  uint32_t index = 0;  // in the request
  SequenceState state = SequenceState::kFollowing;
  // Counts how often it has given up its blocks: a row planned in an earlier epoch says nothing about this one.
  uint32_t epoch = 0;

  std::vector<TokenId> tokens;  // prompt, then output; empty until first admitted
  uint32_t computed = 0;        // tokens whose keys and values are in `blocks`
  uint32_t computed_max = 0;    // the most that `computed` has ever been
  std::vector<BlockId> blocks;  // those of positions [0, computed + planned), in order
  uint32_t registered = 0;      // of `blocks`, from the first on: known to the prefix cache
  uint32_t planned = 0;         // tokens of its row in the step being planned or run
  uint32_t drafts = 0;          // the last so many of these are guesses, which `tokens` does not hold
  uint32_t imported = 0;        // tokens right before that row, computed elsewhere, that come with it

  SamplingParams sampling;     // with its own seed
  std::vector<uint32_t> mask;  // memory of its row's mask; empty until it needs one
  bool mask_allows = true;     // anything at all, when last filled

  // In the waiting queue.
  QueueLine* line = nullptr;  // null: not there. This and the hooks are SequenceQueue's
  boost::intrusive::set_member_hook<> in_line;
  boost::intrusive::set_member_hook<> in_arrivals;
  boost::intrusive::list_member_hook<> in_ages;
  TimeNs waiting_since = 0;
  uint32_t length_key = 0;     // Order::kShortest: tokens to compute, as far as known; else 0
  uint32_t overtakes = 0;      // how often those behind it were admitted while it waited
  uint32_t blocks_needed = 0;  // when last looked at in the queue; a hint
  uint64_t looked = 0;         // the last call of schedule() that looked at it
  WaitReason reason = WaitReason::kTurn;
  // Reason kPrefix: who computes its beginning, and up to which block.
  SequenceId awaits = 0;
  uint32_t awaited_blocks = 0;

  uint32_t preemptions = 0;  // how often it has given way

  Drafter drafter;

  // Why it waits, for explain.h. Steps are counted by StepState::decided.
  uint64_t queued_after = 0;  // so many had been decided when it entered the queue
  uint64_t row_step = 0;      // number of the last step that it had a row in

  TimeNs last_token = -1;

  // All tokens there are, also before it is first admitted.
  std::span<const TokenId> all_tokens() const;
  uint32_t length() const { return static_cast<uint32_t>(all_tokens().size()); }
  uint32_t to_go() const { return length() - computed; }
  uint32_t output_count() const;
  Level level() const;
  int32_t priority() const;
};

struct LiveRequest {
  Request request;
  uint64_t arrival = 0;             // counts up
  Level level = 0;                  // its priority, or kAgedLevel for good once it has aged
  Tenant* tenant = nullptr;         // Order::kFair only
  uint32_t output_max = 0;          // tokens per sequence: max_tokens, cut to the context
  std::vector<Sequence> sequences;  // (n), never resized

  uint32_t leader = 0;       // computes the prompt for its siblings
  bool prompt_done = false;  // some sequence has computed the whole prompt once
  bool started = false;      // some sequence was admitted once
  bool import_done = false;  // some step of it was committed: what came with the request is used or gone
  PromptNeed need;           // as of when it came
  bool looked_up = false;    // its prompt was looked up in the prefix cache once
  uint32_t running = 0;      // sequences that hold blocks
  uint32_t unfinished = 0;   // sequences
  // Prompt tokens accounted for, as computed or as cached: those before this position. Each is counted once,
  // whichever sequence gets to it first, and however often it is computed again.
  uint32_t prompt_counted = 0;
  RequestSummary summary;

  TokenRules rules;
  std::vector<TokenScore> prompt_scores;  // of prompt tokens from the second on, as far as computed
  std::vector<double> hidden_sum;         // of the prompt's tokens, of a request that pools

  uint32_t prompt_count() const { return static_cast<uint32_t>(request.prompt.size()); }
  // Its log-probabilities are still to be delivered, in one piece.
  bool scores_prompt() const { return request.prompt_logprobs >= 0 && !prompt_done; }
  bool pools() const { return request.pooling != Pooling::kNone; }
  CacheScope scope() const { return {.salt = request.cache_salt}; }
};

inline std::span<const TokenId> Sequence::all_tokens() const {
  return tokens.empty() ? request->request.prompt : tokens;
}
inline uint32_t Sequence::output_count() const { return length() - request->prompt_count(); }
inline Level Sequence::level() const { return request->level; }
inline int32_t Sequence::priority() const { return request->request.priority; }

// The order of those that run: by level, then in order of arrival, siblings by index.
inline bool precedes(const Sequence& a, const Sequence& b) {
  if (a.level() != b.level()) return a.level() < b.level();
  if (a.request->arrival != b.request->arrival) return a.request->arrival < b.request->arrival;
  return a.index < b.index;
}

}  // namespace twostroke
