// When a request will get its first token, predicted; and the gate that refuses one whose objective cannot be met.
//
// The prediction: what has to be computed before it, over the rate at which prefill advances beside what decodes now
// (by the cost model, which follows measured steps); or the wait for slots and blocks, by how often sequences ended
// lately, where that takes longer; and then its own prompt.
//
//     first token = max(tokens before * time of a prefill token, ends needed * mean time between ends)
//                 + own tokens * time of a prefill token + own context + the step under way
//
// Prompts count with what the prefix cache had not of them: its own now, those that wait when they came.
//
// What it does not know: a beginning that several wait with and none has computed yet, who else will come and go before
// it by priority, tenant or length (it goes by Request::priority and arrival), when running sequences will really end,
// tokens that must be computed again after a preemption, and that prompts which are done become decodes that slow the
// others down.
//
// Pure; plain values. Thread-safety: thread-safe, DeadlineGate by its caller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "scheduler/time.h"

namespace twostroke {

// What a prompt needs of which nothing is there yet.
struct PromptNeed {
  uint32_t length = 1;  // tokens
  uint32_t tokens = 1;  // of them, to compute: at least the last
  uint32_t blocks = 1;  // new ones, and cached ones that nobody holds
};

// Of requests that wait and have never run: what their prompts need, and their sequences, by priority.
struct WaitingLevel {
  int32_t priority = 0;
  uint64_t tokens = 0;
  uint64_t blocks = 0;
  uint32_t sequences = 0;
};
constexpr size_t kForecastLevels = 8;  // the best priorities; what is worse than the last counts as it does

// What the scheduler says about itself after every step.
struct ForecastBasis {
  bool known = false;                   // false: step times are not known yet, and nothing is predicted
  double prefill_token_ns = 0;          // beside the present decodes, in steps of the present budget
  double prefill_position_ns = 0;       // for each position that a prompt token attends to
  TimeNs step_ns = 0;                   // of the step under way, or the next
  uint64_t running_prefill_tokens = 0;  // of running sequences, still to compute
  uint32_t slots_free = 0;
  uint32_t blocks_room = 0;     // for newcomers
  uint32_t blocks_per_end = 0;  // that a running sequence holds, in the mean
  TimeNs end_interval_ns = 0;   // mean time between two ends of running sequences; 0: none ended yet
  std::array<WaitingLevel, kForecastLevels> waiting{};  // best first
  uint32_t waiting_levels = 0;
};

// What stands before a request, and what it needs itself.
struct ForecastRequest {
  uint64_t tokens_before = 0;     // to compute, of running and waiting prompts
  uint32_t sequences_before = 0;  // waiting
  uint64_t blocks_before = 0;     // that those which wait need
  PromptNeed own;
};
struct Forecast {
  TimeNs start_ns = 0;        // from now until its prompt begins
  TimeNs first_token_ns = 0;  // from now until its first token
};

// What stands before a newcomer of this priority.
ForecastRequest newcomer(const ForecastBasis& basis, int32_t priority, const PromptNeed& own);

// Requires basis.known.
Forecast forecast(const ForecastBasis& basis, const ForecastRequest& request);

// An engine that rests learns nothing, so what it knows of its steps grows old: perhaps something else had the machine
// when it last ran. After so long a rest one request goes through whatever is predicted, and is measured; otherwise a
// prediction that is wrong could refuse everybody for good.
constexpr TimeNs kForecastTrustedNs = 10 * kSecondNs;

// Refuses by the time to first token, without flapping: once one had to be refused for what stands before it, others
// are admitted again only when the prediction is below kReopen times their objective.
class DeadlineGate {
 public:
  static constexpr double kReopen = 0.8;
  // `alone_ns`: the prediction with nothing before it. An objective below that is refused, and says nothing about load.
  bool admits(TimeNs predicted_ns, TimeNs alone_ns, TimeNs objective_ns);
  bool closed() const { return closed_; }

 private:
  bool closed_ = false;
};

}  // namespace twostroke
