// SyntheticWorkload: requests drawn from a seed. They arrive as a Poisson process (open loop: whatever became of those
// before); each is of one of several kinds, drawn by weight, with lengths of its own.
//
// With a shared prefix, the first tokens of each prompt are those of one of `prefix_groups` texts, drawn evenly, such
// as the system prompts of so many applications; they come in front of the drawn length.
//
// The seed gives arrival times, kinds and lengths streams of their own: another rate changes the times alone.
// Thread-safety: one thread.
#pragma once

#include <string>
#include <vector>

#include "server/simulate/lengths.h"
#include "server/simulate/workload.h"

namespace twostroke::simulate {

// So far apart at most that their sum is exact enough to draw each.
constexpr double kKindWeightMin = 1e-6;
constexpr double kKindWeightMax = 1e6;

struct RequestKind {
  double weight = 1;
  Lengths prompt;
  Lengths output;
};

struct SyntheticOptions {
  uint64_t seed = 1;
  double rate = 1;  // requests per second, on average
  uint64_t requests = 1000;
  std::vector<RequestKind> kinds;  // at least one
  uint32_t prefix_tokens = 0;
  uint32_t prefix_groups = 1;
};

// "0.8/60/lognormal:200:0.5": weight, prompt and output lengths of a kind. Errors: kInvalidArgument that says how it is
// written.
Result<RequestKind> parse_kind(const std::string& text);

std::unique_ptr<Workload> make_synthetic(const SyntheticOptions& options);

}  // namespace twostroke::simulate
