// The inside of the Scheduler, in one struct whose parts live in files of their own:
//
//     submit.cpp      validate, submit                            requests come in
//     planning.cpp    schedule: decodes, prefill chunks, the plan  \ a step is decided
//     admission.cpp   waiting sequences start; forks                |
//     sharing.cpp     who waits for what another is computing       |
//     preemption.cpp  who gives way, and who is pushed out          |
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
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/blocks/block_pool.h"
#include "scheduler/blocks/prefix_cache.h"
#include "scheduler/cost/step_budget.h"
#include "scheduler/explain.h"
#include "scheduler/journal/journal.h"
#include "scheduler/order/sequence_queue.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace twostroke {

// How many blocked sequences a step looks past for one that fits, and how many that await a prefix, so that a step's
// cost does not depend on how many wait. Of one tenant, only so many in a row.
constexpr uint32_t kAdmissionLookahead = 32;
constexpr uint32_t kPrefixLookahead = 128;
constexpr uint32_t kTenantLookahead = 8;

struct Scheduler::Impl {
  Impl(const SchedulerLimits& wanted, const BackendInfo& info);

  // --- submit.cpp
  Status validate(const Request& request) const;
  Status validate_remote(const Request& request) const;
  Status submit(Request&& request, TimeNs now);

  // --- planning.cpp
  void schedule(TimeNs now, StepPlan& plan, StepCounts& counts);
  void plan_decodes();
  void limit_prefill();
  void plan_prefills();
  void list_prefills();
  void plan_level(Level level, std::span<Sequence* const> prefills);
  void plan_line(Level level, const Tenant* tenant, std::span<Sequence* const> prefills);
  void advance_first();
  void grow_short(std::span<Sequence* const> prefills);
  void grow_row(Sequence& sequence, uint32_t tokens_max);
  uint64_t fitting_tokens(const Sequence& sequence) const;
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
    const Sequence* sibling = nullptr;  // whose blocks they are; null: those in `hits_`, and then
    uint32_t imported = 0;              // so many of them, the last, come with the request
    uint32_t shared() const { return tokens - imported; }
  };
  enum class Look : uint8_t {
    kStarted,
    kPassed,  // those behind it overtake it if they start
    kAside,   // it waits for something that those behind it do not take from it
    kMoved,   // it has another place now
    kClosed,  // nobody starts any more in this step
  };
  void let_age();
  void admit_line(Level level, const Tenant* tenant);
  void admit_deferred(Level level, const Tenant* tenant);
  bool admit_eldest(Level level);
  bool take_look(Sequence& sequence, Look look);
  Look look_at(Sequence& sequence);
  Look try_start(Sequence& sequence, bool may_defer);
  bool is_open_to(Sequence& sequence);
  bool goes_to_another_place(Sequence& sequence, const Prefix& prefix);
  void count_overtakes(const Sequence& started);
  uint32_t blocks_to_take(const Sequence& sequence, const Prefix& prefix) const;
  uint32_t tokens_to_compute(const Sequence& sequence);
  Prefix find_prefix(const Sequence& sequence);
  const Sequence* sibling_with(const Sequence& sequence, uint32_t tokens) const;
  void start(Sequence& sequence, const Prefix& prefix);
  void prepare(Sequence& sequence);
  int64_t room_for_admission() const;

  // --- sharing.cpp
  bool still_awaits(Sequence& sequence);
  bool awaits_another(Sequence& sequence);
  void list_in_flight();
  void add_in_flight(Sequence& sequence);

  // --- preemption.cpp
  bool make_room(Sequence& sequence);
  Sequence* cheapest_victim(const Sequence& sequence) const;
  bool is_cheaper(const Sequence& a, const Sequence& b) const;
  bool may_push_out(const Sequence& newcomer) const;
  enum class Need : uint8_t { kSlot, kRow, kBlock };
  Sequence* worse_victim(const Sequence& newcomer, Need need) const;
  bool push_out(const Sequence& newcomer, Need need);
  Sequence* victim_for_share(const Sequence& newcomer) const;
  bool push_out_for_blocks(const Sequence& newcomer, const Prefix& prefix);
  uint32_t uncached_work(const Sequence& sequence) const;
  bool frees_a_block(const Sequence& sequence) const;
  void preempt_sharers(const Sequence& sequence);
  void preempt(Sequence& sequence);
  void settle_headroom();

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
  void enqueue(Sequence& sequence, TimeNs now);
  void dequeue(Sequence& sequence);
  void set_reason(Sequence& sequence, WaitReason reason);
  void enter_running(Sequence& sequence);
  void leave_running(Sequence& sequence, bool forget_blocks);
  void release_followers(LiveRequest& live, TimeNs now);
  Sequence* heir_of(const Sequence& sequence);
  void hand_over_prompt(Sequence& from, Sequence& to);
  void finish(Sequence& sequence, FinishReason reason, TimeNs now);
  void end_request(LiveRequest& live, Outcome outcome, const Status& error, TimeNs now);
  void stop(Sequence& sequence, bool forget_blocks);

  // --- accounting.cpp
  void count_admission(const Sequence& sequence, uint32_t cached_tokens, uint32_t imported_tokens);
  void count_row(const Sequence& sequence, const Row& row);
  void add_to_shape(const Sequence& sequence, uint32_t targets, StepShape& shape) const;

  // --- explain.cpp
  std::vector<std::optional<RequestExplanation>> explain(std::span<const RequestId> requests) const;
  SequenceExplanation explain_sequence(const Sequence& sequence) const;
  PromptNeed need_of(const Sequence& sequence) const;
  void explain_wait(const Sequence& sequence, SequenceExplanation& one) const;
  void explain_pause(const Sequence& sequence, SequenceExplanation& one) const;

  // --- recording.cpp
  void record_commit(const StepPlan& plan, const StepResult& result, TimeNs now);
  RecordedResult recorded_result(const Sequence& sequence, const Row& row, const RowResult& result) const;

  // --- forecasting.cpp
  ForecastBasis forecast_basis() const;
  PromptNeed need_of(const Request& request) const;
  PrefillPace pace_of(StepShape step, uint32_t tokens, bool alone) const;
  void count_waiting(const LiveRequest& live, bool waits);
  void measure_ends(TimeNs duration_ns);

  // --- invariants.cpp
  std::string check_invariants() const;
  std::string check_tenants(const std::vector<const Sequence*>& waiting) const;

  bool uses_cache(const LiveRequest& live) const { return limits_.prefix_cache && live.request.use_prefix_cache; }
  // What needs every position computed finds nothing there.
  bool reads_cache(const LiveRequest& live) const {
    return uses_cache(live) && !live.scores_prompt() && live.request.pooling != Pooling::kMean;
  }
  // Keys and values that come with a request, as long as no step has taken them.
  static uint32_t remote_tokens(const LiveRequest& live, uint32_t reusable) {
    return live.import_done ? 0 : std::min(live.request.remote_tokens, reusable);
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
  const bool imports_kv_;          // likewise
  const uint32_t context_max_;     // the backend's limit as given
  const uint32_t length_max_;      // of one sequence: the context, or what the whole pool can hold
  const uint32_t step_drafts_max_;

  CostModel costs_;
  StepBudget budget_;          // of the last step
  uint32_t ridge_tokens_ = 0;  // likewise
  StepShape decodes_;          // its decodes

  // What newcomers have to wait for.
  std::array<RequestId, kBeginningsCompared> newest_{};  // the last requests that came
  size_t newest_next_ = 0;                               // of them, the one to give way
  std::map<int32_t, SizedLoads> waiting_levels_;         // of requests that never started, by priority
  uint32_t ends_ = 0;           // of running sequences, since the last time that one was measured
  TimeNs since_end_ns_ = 0;     // time of steps since then
  double end_interval_ns_ = 0;  // a moving mean; 0: none ended yet

  BlockPool pool_;
  PrefixCache cache_;

  std::unordered_map<RequestId, std::unique_ptr<LiveRequest>> requests_;
  std::vector<std::unique_ptr<LiveRequest>> ended_;  // kept until nothing of the step points to them
  Fairness fairness_;                                // Order::kFair only
  SequenceQueue waiting_;
  TimeNs clock_ = std::numeric_limits<TimeNs>::min() / 2;    // the latest moment that it was given
  TimeNs aged_at_ = std::numeric_limits<TimeNs>::min() / 2;  // when a request last aged
  std::vector<Sequence*> running_;                           // in order (precedes)
  uint32_t headroom_ = 0;                                    // blocks that admission keeps free besides: preemption.cpp
  uint64_t blocks_promised_ = 0;                             // promised_to(), summed over running_
  SchedulerGauges gauges_;
  std::unique_ptr<JournalWriter> journal_;  // null: nobody records
  uint64_t looks_ = 0;                      // calls of schedule()
  uint64_t turns_ = 0;                      // rounds in which tenants had their turns: plan_level()
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
    bool ran_out = false;           // of blocks: somebody gave way for them
    std::optional<Level> gave_way;  // the best level that gave way
    bool closed = false;            // nobody starts any more
    bool prefilling = false;        // a prompt is under way that does not end in this step
    uint32_t prefill_tokens = 0;    // planned so far
    uint64_t short_tokens = 0;      // what a prompt may have to go to be short: plan_level()
    uint32_t aside = 0;             // looked at and put aside
    bool masks_due = false;         // rows have masks that are not filled yet
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
  std::vector<Sequence*> prefills_;
  std::vector<Sequence*> newcomers_;  // of the level being planned
  std::vector<Sequence*> short_;
  std::vector<Sequence*> passed_;  // looked at in this step, and not admitted
  // Prompts being computed whose next block the prefix cache will know.
  struct InFlight {
    uint64_t hash;  // of that block, as the prefix cache sees it
    Sequence* sequence;
  };
  std::vector<InFlight> in_flight_;
  bool in_flight_listed_ = false;  // in this step
  std::vector<BlockId> known_;     // as hits_, of a sequence that only enters the queue
  std::vector<BlockId> hits_;
  std::vector<float> draft_worths_;  // (decode rows, max_draft_tokens): draft_economics.h
};

}  // namespace twostroke
