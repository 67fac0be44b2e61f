// When a request will get its first token, predicted; and the gate that refuses one whose objective cannot be met.
//
// The prediction: what has to be computed before it, over the rate at which prefill advances beside what decodes now
// (by the cost model, which follows measured steps); or the wait for slots and blocks, by how often sequences ended
// lately, where that takes longer (before any has ended: as if all used their max_tokens; none is needed for those of a
// worse priority, which give way); and then its own prompt.
//
//     first token = max(tokens before * time of a prefill token + context before, ends needed * mean time between ends)
//                 + own tokens * time of a prefill token + own context + the step under way
//                 + the part of a step's fixed cost that the own last chunk does not fill
//
// Before it goes what runs or waits of a better priority and of its own. A short prompt, though, does not wait behind
// longer ones of its priority: it shares half of each step with other short ones (plan_line() in planning.cpp), so
// before it are only those, and all takes twice as long. What is sooner counts.
//
// Prompts count with what nobody computes for them: what the prefix cache had not of them when they came, and none of
// the last kBeginningsCompared requests before them begins with, which they will wait for (prefix sharing,
// sharing.cpp; who waited for one that is cancelled counts too little from then on).
//
// What it does not know: who else will come and go before it, by priority, tenant or length; that short ones overtake
// only so often; when running sequences will really end, tokens that must be computed again after a preemption, and
// that prompts which are done become decodes that slow the others down.
//
// Pure; plain values. Thread-safety: thread-safe, DeadlineGate by its caller.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "scheduler/time.h"

namespace twostroke {

// What a prompt needs of which nothing is there yet.
struct PromptNeed {
  uint32_t length = 1;  // tokens
  uint32_t tokens = 1;  // of them, to compute: at least the last
  uint32_t blocks = 1;  // new ones, and cached ones that nobody holds
};
// Others compute its first `tokens`: of those, whole blocks are found.
void spare(PromptNeed& need, uint32_t tokens, uint32_t block_size);
constexpr size_t kBeginningsCompared = 8;

// What several prompts need together.
struct PromptLoad {
  uint64_t tokens = 0;
  uint64_t positions = 0;  // that those tokens attend to
  uint64_t blocks = 0;
  uint32_t sequences = 0;

  PromptLoad& operator+=(const PromptLoad& other);
  PromptLoad& operator-=(const PromptLoad& other);
};
PromptLoad load_of(const PromptNeed& need, uint32_t sequences);

// Loads of prompts by how many tokens each has to compute: up to 16, 32, 64, ...; the last is of all longer ones.
constexpr size_t kForecastSizes = 12;
using SizedLoads = std::array<PromptLoad, kForecastSizes>;
size_t size_of_prompt(uint64_t tokens);

// Sequences of a priority, but for those that have aged.
struct ForecastLevel {
  int32_t priority = 0;
  SizedLoads waiting{};       // requests that have never run
  SizedLoads prefilling{};    // those that run and have prompt left: no blocks, they hold them
  uint64_t first_tokens = 0;  // of the first of these
  uint32_t running = 0;       // sequences, with and without prompt left
};
constexpr size_t kForecastLevels = 8;  // the best priorities; what is worse than the last counts as it does

// A prompt is short that would take so many steps with all of their prefill tokens, or has a quarter of what the first
// running one has left.
constexpr uint32_t kShortSteps = 4;
constexpr uint32_t kShortPart = 4;

// How fast a prompt is computed.
struct PrefillPace {
  double token_ns = 0;       // in full steps
  double position_ns = 0;    // for each position that a prompt token attends to
  double short_step_ns = 0;  // of a step with one prompt token: the least that any prompt takes
  uint32_t step_tokens = 1;  // of a full step
};

// What the scheduler says about itself after every step.
struct ForecastBasis {
  bool known = false;      // false: step times are not known yet, and nothing is predicted
  PrefillPace pace;        // beside the present decodes, in steps of the present budget
  PrefillPace pace_alone;  // with the machine to itself, undisturbed
  TimeNs step_ns = 0;      // of the step under way, or the next
  uint32_t slots_free = 0;
  uint32_t blocks_room = 0;     // for newcomers
  uint32_t blocks_per_end = 0;  // that a running sequence holds, in the mean
  TimeNs end_interval_ns = 0;   // mean time between two ends of running sequences
  PromptLoad aged;              // what runs, has aged and has prompt left: goes before everything
  std::array<ForecastLevel, kForecastLevels> levels{};  // best first
  uint32_t level_count = 0;

  // That of a priority, made where there is none. Beyond kForecastLevels the worst are one, with the best priority of
  // theirs. Priorities come in any order.
  ForecastLevel& level(int32_t priority);
};

// What stands before a request, and what it needs itself.
struct ForecastRequest {
  PromptLoad before;
  uint32_t gives_way = 0;  // running sequences that would
  PromptNeed own;
  // Before it where it goes before longer ones of its priority; absent where it does not, or there are none.
  std::optional<PromptLoad> before_as_short;
};
struct Forecast {
  TimeNs start_ns = 0;        // from now until its prompt begins
  TimeNs first_token_ns = 0;  // from now until its first token
  TimeNs alone_ns = 0;        // that with the machine to itself
};

// What running prompts of this priority and of better ones have left.
PromptLoad running_before(const ForecastBasis& basis, int32_t priority);
// Running sequences of a worse priority.
uint32_t gives_way_to(const ForecastBasis& basis, int32_t priority);
// What stands before a newcomer of this priority.
ForecastRequest newcomer(const ForecastBasis& basis, int32_t priority, const PromptNeed& own);

// Requires basis.known.
Forecast forecast(const ForecastBasis& basis, const ForecastRequest& request);

// An engine that rests learns nothing, so what it knows of its steps grows old: perhaps something else had the machine
// when it last ran. After so long a rest one request goes through whatever is predicted, and is measured; otherwise a
// prediction that is wrong could refuse everybody for good.
constexpr TimeNs kForecastTrustedNs = 10 * kSecondNs;
// After so long already where the machine, undisturbed, could meet the objective: what slowed it down may be over.
constexpr TimeNs kForecastDoubtedNs = kSecondNs;

// Refuses by the time to first token, without flapping: once one had to be refused for what stands before it, others
// are admitted again only when the prediction is below kReopen times their objective.
class DeadlineGate {
 public:
  static constexpr double kReopen = 0.8;
  // `alone_ns`: the prediction with the machine to itself. An objective below that is refused, and says nothing about
  // load.
  bool admits(TimeNs predicted_ns, TimeNs alone_ns, TimeNs objective_ns);
  bool closed() const { return closed_; }

 private:
  bool closed_ = false;
};

}  // namespace twostroke
