// StepTerms: what a step costs, resource by resource; PhaseAccount: what phases cost, added up over steps.
//
// A step takes   max(compute, memory) + link + overhead   seconds: arithmetic and memory traffic overlap, the rest does
// not. compute and memory are those of SimBackend's roofline (backend/sim/machine.h), link is that of tensor
// parallelism (machine_spec.h). With a calibrated machine the whole is what the calibration predicts; compute and
// memory are then the roofline's still, and say only which of the two is the larger.
//
// A step with rows of both phases cannot be split by measuring. It is split as CostModel::attribute does
// (scheduler/cost/cost_model.h): each phase is given what it adds to the other, averaged over the two orders in which
// they can be put together. So what both need, such as the weights, is shared equally.
//
// A second of a step is bound by what it was spent on: link and overhead by their terms, the rest by the larger of
// compute and memory. In a mixed step that is looked at in both orders too: the seconds of the phase that is put first
// are bound as in a step of its rows alone, those that the other adds by the larger term of the whole.
//
// Thread-safety: plain values and const methods.
#pragma once

#include <cstdint>
#include <functional>

#include "backend/sim/machine.h"
#include "scheduler/cost/step_shape.h"
#include "server/simulate/machine_spec.h"

namespace twostroke::simulate {

struct StepTerms {
  double compute_seconds = 0;
  double memory_seconds = 0;
  double link_seconds = 0;
  double overhead_seconds = 0;
  double total_seconds = 0;
  double flops = 0;
  double bytes = 0;

  bool compute_binds() const { return compute_seconds > memory_seconds; }
};

// The parts of a step that belong to each phase.
StepShape prefill_part(const StepShape& shape);
StepShape decode_part(const StepShape& shape);

// Predicted seconds of a step: what a calibration gives in the place of the roofline.
using StepSeconds = std::function<double(const StepShape&)>;

class StepPricer {
 public:
  explicit StepPricer(const MachineSpec& spec, StepSeconds calibrated = {}) : spec_(spec), calibrated_(calibrated) {}
  StepTerms price(const StepShape& shape) const;
  const MachineSpec& spec() const { return spec_; }

 private:
  MachineSpec spec_;
  StepSeconds calibrated_;
};

// Seconds that a request takes with the machine to itself, nothing cached: of its prompt, in chunks of at most
// `chunk_tokens`, to the first token; and of the tokens behind that one. Every chunk is priced as the middle one, and
// every token as at the middle of the answer.
double lone_prompt_seconds(const StepPricer& pricer, uint32_t prompt_tokens, uint32_t chunk_tokens);
double lone_answer_seconds(const StepPricer& pricer, uint32_t prompt_tokens, uint32_t output_tokens);

// Seconds by what they were spent on. They add up to the busy time.
struct BoundSeconds {
  double compute = 0;
  double memory = 0;
  double link = 0;
  double overhead = 0;

  double total() const { return compute + memory + link + overhead; }
  void add(const StepTerms& terms);
  BoundSeconds& operator+=(const BoundSeconds& other);
};

struct PhaseAccount {
  uint64_t tokens = 0;  // computed, in this phase
  double seconds = 0;   // attributed as described above
  // Of all steps that had rows of it, whole. What it does of arithmetic and memory traffic is a share of what the
  // machine could do in these: what rides along in another phase's shadow has little time of its own.
  double step_seconds = 0;
  double flops = 0;
  double bytes = 0;
  BoundSeconds bound;
  PhaseAccount& operator+=(const PhaseAccount& other);
};

struct StepAccounts {
  uint64_t steps = 0;
  uint64_t mixed_steps = 0;
  double mixed_seconds = 0;
  PhaseAccount prefill;
  PhaseAccount decode;

  double busy_seconds() const { return prefill.seconds + decode.seconds; }
  // `whole` is what `pricer` gives for `shape`.
  void add(const StepPricer& pricer, const StepShape& shape, const StepTerms& whole);
  StepAccounts& operator+=(const StepAccounts& other);
};

}  // namespace twostroke::simulate
