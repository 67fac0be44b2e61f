// One random scenario: a machine, limits, requests that arrive, are cancelled and cut short, and faults, all drawn from
// a seed; run to its end with every check of the Harness after every step.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace twostroke::test {

// What happened over many scenarios, so that a test can tell that they reached what they are for.
struct ScenarioStats {
  uint64_t scenarios = 0;
  uint64_t steps = 0;
  uint64_t mixed_steps = 0;
  uint64_t requests_finished = 0;
  uint64_t requests_failed = 0;
  uint64_t requests_refused = 0;
  uint64_t cancels_waiting = 0;
  uint64_t cancels_prefilling = 0;
  uint64_t cancels_decoding = 0;
  uint64_t sequences_told_to_finish = 0;
  uint64_t preemptions = 0;
  uint64_t pushed_out = 0;         // of those: for a better priority
  uint64_t waited_for_prefix = 0;  // sequences, in each step
  uint64_t waited_aged = 0;        // steps behind which one that has aged still waits
  std::array<uint64_t, 3> steps_by_order{};
  uint64_t cached_tokens = 0;
  uint64_t remote_tokens = 0;
  uint64_t recomputed_tokens = 0;
  uint64_t copies = 0;
  uint64_t masked_rows = 0;
  uint64_t requests_stuck = 0;  // that left themselves no token
  uint64_t prompts_scored = 0;
  uint64_t embeddings = 0;
  uint64_t drafts = 0;
  uint64_t accepted_drafts = 0;
};

// Empty when all went well; otherwise what is wrong first.
std::string run_scenario(uint64_t seed, ScenarioStats& stats);

}  // namespace twostroke::test
