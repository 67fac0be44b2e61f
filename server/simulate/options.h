// SimulateOptions: the command line of `twostroke simulate`, typed and checked. Thread-safety: plain values.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "server/simulate/machine_spec.h"
#include "server/simulate/max_rate.h"
#include "server/simulate/router.h"
#include "server/simulate/simulation.h"
#include "server/simulate/synthetic.h"

namespace twostroke::simulate {

constexpr size_t kFleetsMax = 16;
constexpr size_t kKindsMax = 64;
constexpr double kItlTargetMsMin = 1e-3;  // below it only 0: none
constexpr uint64_t kRequestsMax = 100'000'000;

struct SimulateOptions {
  std::string model = "Llama-3.1-8B";
  std::string weights;  // "": f16, or as in a GGUF file
  std::string kv_type = "f16";
  std::vector<std::string> fleets = {"H100"};
  std::vector<std::string> prices;  // NAME=PRICE
  MachineOptions machine;
  std::string calibration;  // a file; "": the roofline
  std::string router = "round_robin";
  double link_gbit_per_s = 400;
  double link_latency_us = 20;

  std::string workload;  // a trace; "": synthetic
  double rate = 1;
  double rate_scale = 1;  // of a trace
  uint64_t requests = 0;  // 0: 1,000 synthetic ones, or the whole trace
  std::string prompt_lengths = "lognormal:512:0.8:8192";
  std::string output_lengths = "lognormal:128:0.8:2048";
  std::vector<std::string> kinds;  // WEIGHT/PROMPT/OUTPUT
  uint32_t prefix_tokens = 0;
  uint32_t prefix_groups = 1;
  double from_seconds = 0;
  double for_seconds = 0;
  uint64_t seed = 1;

  SchedulerLimits limits;
  std::string order = "fcfs";
  double itl_target_ms = 0;  // 0: none

  double ttft_ms = 0;  // 0: no target
  double tpot_ms = 0;
  bool find_max_rate = false;
  double good_share = 0.99;

  std::string json;   // a file, or - for standard output
  std::string trace;  // a file
};

// What parsing came to, as ServeCommand.
struct SimulateCommand {
  SimulateOptions options;
  bool run = false;
  int exit_code = 0;
};

SimulateCommand parse_simulate_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace twostroke::simulate
