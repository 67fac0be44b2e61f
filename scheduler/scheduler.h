// Scheduler: decides what every step does. Pure and single-threaded: no clock, no I/O, no threads, no text.
//
// There is no prefill mode and no decode mode. Each sequence has tokens (prompt and output) and a count of those whose
// keys and values are in the cache (`computed`); every step moves `computed` towards the number of tokens. A sequence
// with exactly one token to go is decoding and gets its row first; what is left of the step's budget goes to prefill
// chunks, running sequences before newly admitted ones. New, preempted and half-prefilled sequences differ only in a
// number.
//
// Three verbs, in this order, over and over:
//     schedule(now, plan)            fills the plan (maybe empty)
//     fill_masks(plan)               says which tokens may come in it; any time before the backend's wait() (backend.h)
//     commit(plan, result, now, ..)  advances by what the backend did;  or  fail(plan, error, now, ..)
// between them (never between schedule and its commit): submit(), cancel(), finish_sequence().
//
// Guarantees
// - Every accepted request gets exactly one terminal event, whatever happens (event.h).
// - Every running decode gets its row in every step: max_running is cut to what a step can carry. One may have to wait
//   only where blocks have run out and it holds nothing that would help if it gave way, or it gives way itself.
// - Everything goes by priority (Request::priority, the lower first), strictly, and within one priority by the
//   configured order (order.h): by arrival, by what each tenant has been served, or the shortest first.
// - A request of a better priority than something that runs starts in the next step: where there is no slot, no token
//   beside the decodes, or no block for it, running sequences of the worst priority give way, if that is enough. The
//   priorities as given are compared, so that no two push each other out in turns.
// - Nothing waits for ever: once in every aging interval the longest waiting goes first, and from then on runs and
//   waits before all priorities, and is not pushed out for any.
// - A short prompt does not wait behind long ones: the first of the running prompts gets half of the step's prefill
//   tokens at most while others want some, and short ones, running or new (what a few steps would compute, or a quarter
//   of what the first still has), come before the longer ones of their priority, as often as max_overtakes allows.
// - A prompt that begins like one that is being computed waits for that beginning, instead of computing it again; no
//   longer than the other runs, and holding up nobody.
// - When blocks run out the victim is, of those with the worst priority and none better than the one in need, the
//   sequence whose loss of uncached work is least, of those that have not given way max_preemptions times yet where
//   there are any; it is put back at its place in the queue, and only if that frees a block. The first of the running
//   sequences (the oldest of the best priority) never gives way for that, so that it always advances, and everything
//   ends. For a while after, admission leaves more blocks free. A request too big for the whole pool is refused at
//   submit.
// - Admission is in order of the queue, for sequences all of whose tokens fit into blocks that are neither held nor
//   promised. What cannot be scheduled now does not hold up what can (a step looks past 32 of them), but a sequence is
//   overtaken by those behind it at most max_overtakes times; then nothing behind it is admitted until it is.
// - Blocks of cancelled, finished or preempted sequences are returned at once: no step is in flight in between.
// - A row that fails, fails its request alone. What a request that failed had put into the prefix cache for itself
//   leaves it: whatever spoilt its logits may be in there.
// - Drafts change no token of the output, only how many come at once (backend/step.h). They take what a step has left:
//   of tokens, after decodes, prefill and newcomers; of blocks, without making anybody give way, and what only drafts
//   needed is returned with the step. What was not accepted never enters the prefix cache. Rows whose tokens are
//   restricted (a constraint, token rules that may still apply) have none: a mask is for one position.
// - The same calls give the same plans.
//
// Thread-safety: step thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/step.h"
#include "scheduler/cost/cost_model.h"
#include "scheduler/cost/forecast.h"
#include "scheduler/cost/step_budget.h"
#include "scheduler/cost/step_shape.h"
#include "scheduler/event.h"
#include "scheduler/explain.h"
#include "scheduler/order/order.h"
#include "scheduler/request.h"
#include "scheduler/time.h"

namespace twostroke {

constexpr uint32_t kMaxDraftTokens = 64;  // of one row
constexpr uint32_t kMaxStepDrafts = 512;  // of one step, whatever the backend could take

struct SchedulerLimits {
  uint32_t max_step_tokens = 512;  // tokens in one step, decodes and chunks together
  uint32_t max_running = 64;       // sequences holding blocks, one row each; cut to max_step_tokens and a step's rows
  uint32_t max_chunk_tokens = 0;   // tokens of one prefill chunk; 0: the step's budget alone decides (step_budget.h)
  TimeNs itl_target_ns = 0;        // between two tokens of requests without an objective of their own; 0: none
  uint32_t max_waiting_requests = 1024;
  uint64_t max_waiting_tokens = 1 << 20;  // prompt tokens of requests not yet started; one alone may exceed it
  Order order = Order::kFcfs;             // of those that wait, within a priority
  uint32_t aging_ms = 10'000;             // once in so long the longest waiting goes first (order.h); 0: never
  uint32_t max_overtakes = 64;            // how often a waiting sequence may be passed over by later ones; 0: never
  uint32_t max_preemptions = 4;           // of one sequence, where another of its level can give way in its place
  bool prefix_cache = true;
  std::optional<CostCoefficients> costs;  // what the cost model begins with (calibration.h); none: a guess
  // Drafts of one row; cut to kMaxDraftTokens and to what a step can carry. 0: no speculation. See drafter.h for where
  // drafts come from, and draft_economics.h for when they are sent.
  uint32_t max_draft_tokens = 0;
};

// What the scheduler holds, for metrics. A snapshot.
struct SchedulerGauges {
  uint32_t requests_waiting = 0;  // never started, or preempted and not yet back
  uint32_t requests_running = 0;  // at least one sequence holds blocks
  uint32_t sequences_waiting = 0;
  uint32_t sequences_running = 0;
  std::array<uint32_t, kWaitReasons> sequences_by_reason{};  // of those in the queue; siblings that follow are not yet
  uint64_t waiting_prompt_tokens = 0;                        // of requests that never started
  uint32_t blocks_total = 0;
  uint32_t blocks_free = 0;
  uint32_t blocks_cached = 0;
  uint32_t blocks_referenced = 0;
  // Of referenced blocks: those that hold a token, and those that a sequence holds for tokens to come.
  uint64_t positions_used = 0;
  uint64_t positions_unused = 0;
  uint32_t blocks_headroom = 0;  // kept free by admission since blocks last ran out
  // Of the last step planned.
  uint32_t prefill_chunk_tokens = 0;  // that prefill might take of it
  ChunkReason chunk_reason = ChunkReason::kNothingDecodes;
  uint32_t ridge_tokens = 0;    // CostModel::ridge_tokens() with its decodes
  double cost_error_ratio = 0;  // CostModel::error_ratio()
};

// What one step did, by phase. Counts; times are the engine's.
//
// Prompt tokens are counted once per request, whichever of its sequences computes or finds them first, and however
// often that happens again. So for a request whose prompt is complete: computed + cached + remote tokens = prompt
// tokens, exactly. (The last prompt token, which each of n sequences computes for its own first sample, is counted for
// the first alone.)
struct StepCounts {
  StepShape shape;
  TimeNs predicted_ns = 0;         // what the cost model thinks that it takes
  uint32_t computed_tokens = 0;    // prompt tokens computed for the first time
  uint32_t cached_tokens = 0;      // prompt tokens found in the prefix cache, counted once per request
  uint32_t remote_tokens = 0;      // prompt tokens computed elsewhere: Request::remote_tokens
  uint32_t recomputed_tokens = 0;  // computed again: after preemption, or because a sibling's blocks are gone
  uint32_t sampled_tokens = 0;     // rows that sample: each makes an output token, and more where drafts are accepted
  uint32_t draft_tokens = 0;       // drafts that decode rows carry
  uint32_t accepted_draft_tokens = 0;  // of these, what became output; known after the step, and filled by the engine
  uint32_t scored_tokens = 0;  // prompt tokens whose log-probability was computed. Logits: sampled + draft + scored
  uint32_t preemptions = 0;
  uint32_t preemptions_for_priority = 0;  // of those: to let a better priority in
  uint32_t prefix_queries = 0;            // prompt tokens looked up in the prefix cache, counted once per request
};

class JournalOutput;

class Scheduler {
 public:
  // `info` gives the block pool's size and what a step can carry; limits beyond it are cut to it. Requires limits > 0.
  Scheduler(const SchedulerLimits& limits, const BackendInfo& info);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // From now on every call goes to `output` too, which must outlive the scheduler: see journal.h. Before any other
  // call.
  void record_to(JournalOutput& output);

  // The limits in force, after cutting.
  const SchedulerLimits& limits() const;

  // Errors, in this order, each before anything is kept:
  //   kInvalidArgument    no tokens, a token outside the vocabulary, n 0 or above kMaxSequences, max_tokens 0,
  //                       constraints not matching n, token rules or prompt_logprobs out of bounds, output asked
  //                       of a request that pools, remote tokens beyond the prompt or where all of it must be
  //                       computed, prompt and one output token beyond the context or beyond the whole pool
  //   kUnsupported        prompt_logprobs, pooling or remote tokens with a backend that cannot (BackendInfo)
  //   kResourceExhausted  max_waiting_requests reached, or max_waiting_tokens exceeded with this one
  // A request that is not accepted gets no events.
  Status submit(Request request, TimeNs now);

  // The check of submit() that depends on the request and the machine alone, not on the queue. Thread-safe (const,
  // immutable).
  Status validate(const Request& request) const;

  // Ends a request in whatever state it is, by id only: its blocks are free when this returns; a kEnded event follows
  // with the next commit's events or drain_events(). Unknown or ended ids are ignored: a cancel may race with the end.
  void cancel(RequestId request, TimeNs now);
  // Ends one sequence with FinishReason::kStop, because the I/O side found a stop string in its text. Unknown, or of
  // a request that pools: ignored.
  void finish_sequence(RequestId request, uint32_t sequence, TimeNs now);
  // Ends every request with kFailed and this error.
  void fail_all(const Status& error, TimeNs now);

  // Fills `plan` with the next step, and `counts` with what it will do. Empty when nothing can run, which, while
  // requests are waiting or running, never happens twice without a request having been ended in between.
  void schedule(TimeNs now, StepPlan& plan, StepCounts& counts);

  // Computes the masks of the plan's rows, which point to the scheduler's memory. After schedule(), and before commit()
  // if there are any masks (CHECKed). What takes long is the requests' constraints.
  void fill_masks(const StepPlan& plan);

  // `result` belongs to `plan`, the last one scheduled. Appends the step's events. A result that is not the plan's
  // (another number of rows, tokens outside the vocabulary) fails the step or the request, never the program.
  void commit(const StepPlan& plan, const StepResult& result, TimeNs now, std::vector<Event>& events);
  // The step was lost: ends the requests that took part in it with kFailed and this error.
  void fail(const StepPlan& plan, const Status& error, TimeNs now, std::vector<Event>& events);
  // A step of this shape, committed, took so long: the cost model learns it. Steps that failed teach nothing.
  void learn(const StepShape& shape, TimeNs duration_ns);
  const CostModel& cost_model() const;
  // Events of cancels and the like since the last commit.
  void drain_events(std::vector<Event>& events);

  // Where each of these requests is, and why it waits; nothing for one that is unknown or has ended. Costs a walk
  // through the queue, as far as the last of them. Never between schedule() and commit().
  std::vector<std::optional<RequestExplanation>> explain(std::span<const RequestId> requests) const;
  std::optional<RequestExplanation> explain(RequestId request) const;

  // From what newcomers' first tokens can be predicted (forecast.h), as of the last call.
  ForecastBasis forecast_basis() const;
  // What this request's prompt would need if it came now. Requires a prompt. Changes nothing, so other threads may call
  // it while no call that changes the scheduler is under way.
  PromptNeed need_of(const Request& request) const;

  bool idle() const;  // no request waiting or running
  SchedulerGauges gauges() const;

  // Empty when all is well; otherwise what is broken: block conservation, no block shared by strangers (sequences that
  // share a block agree on all tokens up to its end), queues and states consistent, budgets kept. For tests, after
  // every step.
  std::string check_invariants() const;

 private:
  struct Impl;
  friend struct SchedulerTestPeer;  // lets a test break an invariant on purpose
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke
