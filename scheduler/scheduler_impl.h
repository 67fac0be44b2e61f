// The inside of the Scheduler, in one struct whose parts live in files of their own:
//
//     submit.cpp      validate, submit                            requests come in
//     planning.cpp    schedule: decodes, prefill chunks, the plan  \ a step is decided
//     admission.cpp   waiting sequences start; forks                |
//     preemption.cpp  who gives up blocks when there are none       |
//     speculation.cpp  drafts                                      /
//     commit.cpp      commit, fail                                 a step has run
//     lifecycle.cpp   how sequences and requests start and end, with their gauges
//     accounting.cpp  which tokens count as what
//     explain.cpp     explain
//     recording.cpp   what the journal gets of a step
//     forecasting.cpp  what newcomers have to wait for
//     invariants.cpp  check_invariants
//
// Everything a step decides is in `step_`; everything else changes only through lifecycle.cpp and the pool.
// Step thread only.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/block_pool.h"
#include "scheduler/explain.h"
#include "scheduler/journal.h"
#include "scheduler/prefix_cache.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_queue.h"
#include "scheduler/step_budget.h"

namespace twostroke {

// How many blocked sequences a step looks past for one that fits, so that a step's cost does not depend on how many
// wait.
constexpr uint32_t kAdmissionLookahead = 32;

struct Scheduler::Impl {
  Impl(const SchedulerLimits& wanted, const BackendInfo& info);

  // --- submit.cpp
  Status validate(const Request& request) const;
  Status submit(Request&& request, TimeNs now);

  // --- planning.cpp
  void schedule(TimeNs now, StepPlan& plan, StepCounts& counts);
  void plan_decodes();
  void limit_prefill();
  void plan_prefills();
  void take_row(Sequence& sequence, uint32_t count);
  void give_back_row(Sequence& sequence);
  void hold_blocks(Sequence& sequence, uint32_t positions);
  void write_plan(StepPlan& plan);
  void write_row(Sequence& sequence, StepPlan& plan);
  bool is_decode(const Sequence& sequence) const;
  void fill_masks(const StepPlan& plan);

  // --- admission.cpp
  struct Prefix {  // what a sequence need not compute
    uint32_t tokens = 0;
    const Sequence* sibling = nullptr;  // whose blocks they are; null: those in `hits_`
  };
  void admit_waiting();
  bool try_admit(Sequence& sequence, bool first_blocked);
  Prefix find_prefix(const Sequence& sequence);
  const Sequence* sibling_with(const Sequence& sequence, uint32_t tokens) const;
  void start(Sequence& sequence, const Prefix& prefix);
  void prepare(Sequence& sequence);
  uint32_t room_for_admission() const;

  // --- preemption.cpp
  bool make_room(Sequence& sequence);
  Sequence* cheapest_victim(const Sequence& sequence) const;
  uint32_t uncached_work(const Sequence& sequence) const;
  bool frees_a_block(const Sequence& sequence) const;
  void preempt_sharers(const Sequence& sequence);
  void preempt(Sequence& sequence);

  // --- speculation.cpp
  void plan_drafts();
  uint32_t drafts_allowed(const Sequence& sequence) const;
  uint32_t draft_room(const Sequence& sequence) const;
  uint32_t look_for_drafts(Sequence& sequence, uint32_t& follow_left, std::span<float> chances);
  Status check_drafts(const Sequence& sequence, std::span<const TokenId> drafts, const RowResult& result) const;
  uint32_t tokens_to_take(const Sequence& sequence, const RowResult& result) const;

  // --- commit.cpp
  void commit(const StepPlan& plan, const StepResult& result, TimeNs now, std::vector<Event>& events);
  void fail(const StepPlan& plan, const Status& error, TimeNs now, std::vector<Event>& events);
  Status not_in_vocabulary(TokenId token) const;
  Status check_result(const Sequence& sequence, const Row& row, std::span<const TokenId> drafts,
                      const RowResult& result) const;
  void commit_row(Sequence& sequence, const Row& row, std::span<const TokenId> drafts, const RowResult& result,
                  TimeNs now);
  void register_blocks(Sequence& sequence);
  void take_scores(LiveRequest& live, const Row& row, const RowResult& result);
  void take_hidden(LiveRequest& live, const Row& row, const RowResult& result);
  void complete_prompt(LiveRequest& live, TimeNs now);
  void end_pooled(LiveRequest& live, TimeNs now);
  void advance(Sequence& sequence, const RowResult& result, uint32_t tokens, TimeNs now);
  template <typename Drawn>
  void append_token(Sequence& sequence, const Drawn& drawn, bool same_step, TimeNs now);
  void end_if_done(Sequence& sequence, TimeNs now);
  void end_step();
  void drain_events(std::vector<Event>& events);

  // --- lifecycle.cpp
  void cancel(RequestId request, TimeNs now);
  void finish_sequence(RequestId request, uint32_t index, TimeNs now);
  void fail_all(const Status& error, TimeNs now);
  void enqueue(Sequence& sequence);
  void enter_running(Sequence& sequence);
  void leave_running(Sequence& sequence, bool forget_blocks);
  void release_followers(LiveRequest& live);
  Sequence* heir_of(const Sequence& sequence);
  void hand_over_prompt(Sequence& from, Sequence& to);
  void finish(Sequence& sequence, FinishReason reason, TimeNs now);
  void end_request(LiveRequest& live, Outcome outcome, const Status& error, TimeNs now);
  void stop(Sequence& sequence, bool forget_blocks);

  // --- accounting.cpp
  void count_admission(const Sequence& sequence, uint32_t cached_tokens);
  void count_row(const Sequence& sequence, const Row& row);
  void add_to_shape(const Sequence& sequence, uint32_t targets, StepShape& shape) const;

  // --- explain.cpp
  std::vector<std::optional<RequestExplanation>> explain(std::span<const RequestId> requests) const;
  SequenceExplanation explain_sequence(const Sequence& sequence) const;
  void explain_wait(const Sequence& sequence, SequenceExplanation& one) const;
  void explain_pause(const Sequence& sequence, SequenceExplanation& one) const;

  // --- recording.cpp
  void record_commit(const StepPlan& plan, const StepResult& result, TimeNs now);
  RecordedResult recorded_result(const Sequence& sequence, const Row& row, const RowResult& result) const;

  // --- forecasting.cpp
  ForecastBasis forecast_basis() const;
  void count_waiting(const LiveRequest& live, bool waits);
  void measure_ends(TimeNs duration_ns);

  // --- invariants.cpp
  std::string check_invariants() const;

  bool uses_cache(const LiveRequest& live) const { return limits_.prefix_cache && live.request.use_prefix_cache; }
  // What needs every position computed finds nothing there.
  bool reads_cache(const LiveRequest& live) const {
    return uses_cache(live) && !live.scores_prompt() && live.request.pooling != Pooling::kMean;
  }
  uint32_t blocks_for(uint32_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  // Blocks that a running sequence still needs for the tokens it has; drafts may have given it more.
  uint32_t promised_to(const Sequence& sequence) const {
    const auto held = static_cast<uint32_t>(sequence.blocks.size());
    return std::max(blocks_for(sequence.length()), held) - held;
  }
  // Of the sequence's row in the step being planned.
  bool samples(const Sequence& sequence) const {
    return sequence.planned - sequence.drafts == sequence.to_go() && !sequence.request->pools();
  }
  uint32_t targets(const Sequence& sequence) const;

  const SchedulerLimits limits_in_force_;
  const SchedulerLimits limits_;  // the same, with a number for max_chunk_tokens
  const BackendInfo info_;
  const uint32_t vocab_size_;
  const uint32_t block_size_;
  const uint32_t embedding_size_;  // 0: the backend cannot pool
  const bool scores_targets_;      // the backend can
  const uint32_t context_max_;     // the backend's limit as given
  const uint32_t length_max_;      // of one sequence: the context, or what the whole pool can hold
  const uint32_t step_drafts_max_;

  CostModel costs_;
  StepBudget budget_;          // of the last step
  uint32_t ridge_tokens_ = 0;  // likewise
  StepShape decodes_;          // its decodes

  // What newcomers have to wait for.
  std::map<int32_t, WaitingLevel> waiting_levels_;  // of requests that never started, by priority
  uint32_t ends_ = 0;                               // of running sequences, since the last time that one was measured
  TimeNs since_end_ns_ = 0;                         // time of steps since then
  double end_interval_ns_ = 0;                      // a moving mean; 0: none ended yet

  BlockPool pool_;
  PrefixCache cache_;

  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> requests_;
  std::vector<std::unique_ptr<LiveRequest>> ended_;  // kept until nothing of the step points to them
  SequenceQueue waiting_;
  std::vector<Sequence*> running_;  // in order (precedes)
  uint64_t blocks_promised_ = 0;    // promised_to(), summed over running_
  SchedulerGauges gauges_;
  std::unique_ptr<JournalWriter> journal_;  // null: nobody records
  uint64_t arrivals_ = 0;
  SequenceId sequences_made_ = 0;

  // The step being planned or run.
  struct PlannedRow {
    Sequence* sequence;
    uint32_t epoch;
  };
  struct StepState {
    uint64_t number = 0;
    uint64_t decided = 0;  // counts every schedule(), also where nothing came of it
    bool in_flight = false;
    bool preempted = false;
    bool masks_due = false;  // rows have masks that are not filled yet
    TimeNs now = 0;
    uint32_t tokens_left = 0;
    TimeNs objective_ns = 0;  // the tightest of what decodes; 0: none
    StepCounts counts;
    std::vector<Sequence*> planned;  // in the order in which they were decided
    std::vector<BlockCopy> copies;
    std::vector<PlannedRow> rows;  // as in the plan
  };
  StepState step_;
  std::vector<Event> events_;  // not yet handed out

  // Scratch, kept for its memory.
  std::vector<Sequence*> order_;
  std::vector<Sequence*> passed_;
  std::vector<BlockId> hits_;
  std::vector<float> draft_chances_;  // (decode rows, max_draft_tokens)
};

}  // namespace twostroke
