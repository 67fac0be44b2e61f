// LoadPlan: which requests arrive when. Made before the load starts, from a seed or a trace, so that every server that
// is compared gets the same: arrivals are open-loop, they do not wait for answers.
//
// Traces are those that `twostroke simulate` reads (server/simulate/trace_file.h), and prompts are runs as there, so
// that the same load can be simulated and measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/status.h"
#include "server/simulate/workload.h"

namespace twostroke::load {

constexpr uint32_t kPlanRequestsMax = 1'000'000;

struct PlannedRequest {
  double at_seconds = 0;  // after the start
  uint32_t output_tokens = 1;
  std::vector<simulate::TokenRun> prompt;  // equal runs are equal text
};

// One kind of request in a mix: "1500/128*0.3" has 1,500 prompt tokens, 128 output tokens, weight 0.3. Lengths vary
// uniformly by a fifth in both directions, except where the mix says "=" ("1500/128=*0.3").
struct MixPart {
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  double weight = 1;
  bool exact = false;
};
Result<std::vector<MixPart>> parse_mix(const std::string& text);  // parts separated by spaces or commas

struct LoadOptions {
  std::vector<MixPart> mix;
  uint32_t shared_tokens = 0;  // the mix's prompts begin alike for so many tokens
  double rate = 1;             // requests per second: Poisson arrivals of the mix. Of a trace: see trace_speed
  uint64_t requests = 100;     // at most
  uint64_t seed = 1;
  std::string trace;        // file; replaces the mix
  double trace_speed = 1;   // arrivals so many times as fast as the trace's
  uint32_t prompt_max = 0;  // longer prompts of a trace are cut to this; 0: not
  uint32_t output_max = 0;
};

// Errors name the option, or the file and the line.
Result<std::vector<PlannedRequest>> make_plan(const LoadOptions& options);

}  // namespace twostroke::load
