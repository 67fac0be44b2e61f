// Harness: a Scheduler over a ChainBackend, checked from all sides after everything it does.
//
// It keeps what each request was and got, drives steps, and stops at the first thing that is wrong: `problem` says
// what.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/sim/sim_backend.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler/plan_checker.h"

namespace twostroke::test {

// A small machine: 50 tokens, a context of 64, 16 blocks of 4 positions.
SimOptions small_machine();
// Steps of 16 tokens, 8 running sequences.
SchedulerLimits small_limits();

std::vector<TokenId> make_prompt(uint32_t length, TokenId first = 0);  // first, first + 1, ... in a vocabulary of 50
Request make_request(RequestId id, std::vector<TokenId> prompt, uint32_t max_tokens);

// What sequence `index` of a request gets when nothing cuts it short, from the tokens alone; with `even`, under an
// EvenConstraint. What the request's rules say of a token is taken literally here, one token at a time.
struct ExpectedOutput {
  std::vector<TokenId> tokens;
  bool stuck = false;  // after these tokens none may come
};
ExpectedOutput expected_output(const BackendInfo& info, const Request& request, uint32_t index, bool even = false);

// The log-probabilities of the request's prompt, and its embedding, from the tokens alone.
std::vector<TokenScore> expected_prompt(const BackendInfo& info, const Request& request);
std::vector<float> expected_embedding(const BackendInfo& info, const Request& request);

class Harness {
 public:
  struct Track {
    Request request;           // without constraints
    bool constrained = false;  // by EvenConstraints
    bool ends_whole = true;    // as these say
    std::optional<std::vector<TokenScore>> prompt;
    std::vector<std::vector<TokenId>> outputs;
    std::vector<std::optional<FinishReason>> finished;
    std::vector<bool> told_to_finish;  // by finish_sequence()
    bool cancelled = false;
    // Counted from the outside, row by row.
    uint32_t prompt_seen = 0;  // prompt tokens computed or found so far
    uint32_t prefill_tokens = 0;
    uint32_t cached_tokens = 0;
    uint32_t remote_tokens = 0;
    uint32_t recomputed_tokens = 0;
    std::vector<uint32_t> computed_max;  // by sequence

    uint32_t ends = 0;
    Outcome outcome = Outcome::kFinished;
    Status error;
    RequestSummary summary;
    std::vector<float> embedding;
  };

  explicit Harness(const SchedulerLimits& limits = small_limits(), SimOptions machine = small_machine());

  Status submit(Request request);
  void cancel(RequestId request);
  void finish_sequence(RequestId request, uint32_t sequence);

  // One step: schedule, look, run, commit, look again. False when the plan was empty or something is wrong.
  bool step();
  // Steps until nothing is left; a problem if that takes more than `steps_max`.
  void run(uint32_t steps_max = 1000);

  // Compares everything that ended with what it must have got; a problem where they differ. When idle also: no request
  // without an end, no block still held.
  void check_ends();

  // Reads `events`. step() does.
  void take_events();

  const Track& track(RequestId id) const { return tracks_.at(id); }
  const std::map<RequestId, Track>& tracks() const { return tracks_; }
  // The row of the last plan for this sequence; null when it had none.
  const Row* row(RequestId request, uint32_t sequence = 0) const;

  std::unique_ptr<SimBackend> backend;
  Scheduler scheduler;
  PlanChecker checker;
  TimeNs now = 0;
  double slowness = 1;  // of the machine whose steps the scheduler learns, in times of the sim's
  StepPlan plan;        // the last one
  StepResult result;
  StepCounts counts;          // of the last step
  StepCounts total;           // of all steps
  std::vector<Event> events;  // of the last step
  uint64_t steps = 0;
  std::string problem;

 private:
  void fail(const std::string& what);
  void look();
  void count_rows();
  void check_end(RequestId id, const Track& track);
  void check_prompt(RequestId id, const Track& track, bool any_output);

  std::map<RequestId, Track> tracks_;
};

}  // namespace twostroke::test
