// Report: what simulations gave, as a table for people and as JSON for programs.
//
// Rates of a run are over the seconds that load.h names. JSON names carry their units (_seconds, _tokens, _per_second,
// _bytes); shares are from 0 to 1. An object that does not apply (targets, price, links) is left out. Thread-safety:
// plain functions.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "server/simulate/max_rate.h"
#include "server/simulate/model_shape.h"
#include "server/simulate/simulation.h"

namespace twostroke::simulate {

struct FleetReport {
  Fleet fleet;
  SimulationResult result;
  std::optional<MaxRate> max_rate;  // without its result, which is the above
  bool trace_full = false;          // of a Chrome trace: it ends early
};

struct Report {
  Model model;
  std::string workload;           // in words
  std::string calibration;        // the key of that which step times come from; "": the roofline
  std::string calibration_words;  // what it is of, for people
  std::string calibration_doubt;  // why it may be of something else; "": it is not
  std::string rate_unit;          // of max_rate: "requests/s", "times the trace's rate"
  RouterPolicy router = RouterPolicy::kRoundRobin;
  SchedulerLimits limits;
  Targets targets;
  double good_share_min = 0;
  std::vector<FleetReport> fleets;
};

// What the targets are missed by most often.
enum class Miss { kTtft, kTpot, kRefusal };
Miss mostly_missed(const SimulationResult& result);

// What a group's replicas mostly wait for, and which share of their busy time.
struct Binding {
  const char* resource = "nothing";  // "arithmetic", "memory bandwidth", "KV memory", "the link between devices", ...
  double share = 0;
};
Binding binding_of(const GroupResult& group);

// Money for a million tokens at the fleet's price; nullopt without prices, or where no answer is good.
struct TokenPrice {
  double output = 0;  // all of the money over output tokens
  double all = 0;     // over prompt and output tokens
};
std::optional<TokenPrice> token_price(const FleetReport& report);

void write_text(const Report& report, std::ostream& out);
void write_json(const Report& report, std::ostream& out);

}  // namespace twostroke::simulate
