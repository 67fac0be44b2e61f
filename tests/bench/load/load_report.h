// LoadReport: what a load's outcomes come to. Definitions (those of vLLM's and MLPerf's benchmarks):
//   TTFT   from the planned arrival to the first piece of text; so a client that falls behind cannot hide a queue
//   ITL    each gap between two arrivals of text of one request
//   TPOT   (last arrival - first) / (output tokens - 1), for answers of at least two tokens
//   goodput  requests that meet all given objectives, over the time from the first planned arrival to the last end;
//            a request that fails meets none
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/bench/load/load_client.h"

namespace twostroke::load {

// Seconds; 0: not asked.
struct LoadObjectives {
  double ttft = 0;
  double tpot = 0;
  double itl = 0;  // at least 99 of 100 gaps of the request
};

struct Percentiles {
  uint64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
// Nearest rank. Sorts.
Percentiles percentiles(std::vector<double>& values);

struct LoadReport {
  uint64_t offered = 0;
  uint64_t complete = 0;
  uint64_t failed = 0;
  std::string first_error;
  double seconds = 0;       // from the first planned arrival to the last end
  double late_seconds = 0;  // the most that the client itself was late in sending
  uint64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  Percentiles ttft, itl, tpot, end_to_end;
  uint64_t good = 0;  // met the objectives

  double offered_rate() const { return seconds > 0 ? static_cast<double>(offered) / seconds : 0; }
  double goodput() const { return seconds > 0 ? static_cast<double>(good) / seconds : 0; }
};

LoadReport make_report(const std::vector<LoadOutcome>& outcomes, const LoadObjectives& objectives);
std::string report_table(const LoadReport& report, const LoadObjectives& objectives);
nlohmann::json report_json(const LoadReport& report, const LoadObjectives& objectives);

}  // namespace twostroke::load
