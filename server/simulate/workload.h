// Workload: requests in order of their arrival, one at a time, so that a long trace takes no memory.
//
// A prompt is described by runs: `length` tokens that follow from `seed` alone. Equal runs are equal tokens, so prompts
// that begin with the same runs share a prefix.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/status.h"
#include "kernels/token.h"
#include "scheduler/time.h"

namespace twostroke::simulate {

struct TokenRun {
  uint64_t seed = 0;
  uint32_t length = 0;
  friend bool operator==(const TokenRun&, const TokenRun&) = default;
};

struct Arrival {
  TimeNs time = 0;  // since the begin of the workload
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;    // at least 1
  std::vector<TokenRun> prompt;  // of prompt_tokens tokens together
};

// Appends the run's tokens, all below `vocab_size`.
void append_tokens(const TokenRun& run, uint32_t vocab_size, std::vector<TokenId>& tokens);

class Workload {
 public:
  virtual ~Workload() = default;
  // Fills `arrival` with the next request, not earlier than the one before. False: there are no more.
  virtual Result<bool> next(Arrival& arrival) = 0;
  // How much of it has been given, from 0 to 1.
  virtual double progress() const = 0;
};

// What part of a workload is simulated, and how fast.
struct WorkloadWindow {
  double from_seconds = 0;
  double for_seconds = 0;     // 0: to its end
  uint64_t requests_max = 0;  // 0: all
  double rate_scale = 1;      // arrivals come so many times as fast, after the cut
};

// The part of `workload` inside the window; its time starts at the window's begin.
std::unique_ptr<Workload> cut(std::unique_ptr<Workload> workload, const WorkloadWindow& window);

}  // namespace twostroke::simulate
