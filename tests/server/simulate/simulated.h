// Simulated: a fleet with a model on it, to be run with any workload. For tests.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "server/simulate/report.h"
#include "server/simulate/simulation.h"
#include "server/simulate/synthetic.h"

namespace twostroke::simulate {

// Requests given one by one. Those without runs get a prompt of their own.
class ListedWorkload final : public Workload {
 public:
  explicit ListedWorkload(std::vector<Arrival> arrivals) : arrivals_(std::move(arrivals)) {}
  Result<bool> next(Arrival& arrival) override {
    if (given_ == arrivals_.size()) return false;
    arrival = arrivals_[given_++];
    if (arrival.prompt.empty()) arrival.prompt = {{1'000'000 + given_, arrival.prompt_tokens}};
    return true;
  }
  double progress() const override { return 0; }

 private:
  std::vector<Arrival> arrivals_;
  size_t given_ = 0;
};

struct Simulated {
  explicit Simulated(std::string fleet_text, std::string model_name = "Llama-3.1-8B")
      : fleet(parse_fleet(fleet_text, {}).value()), model(find_model(model_name, "", "f16").value()) {
    options.limits.max_step_tokens = 2048;
    options.limits.max_running = 256;
  }

  SimulationResult run(Workload& workload) {
    Result<SimulationResult> result = try_run(workload);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return std::move(result.value());
  }
  Result<SimulationResult> try_run(Workload& workload) {
    std::vector<MachineSpec> machines;
    for (const Group& group : fleet.groups) {
      machines.push_back(make_machine(group, model, machine, options.limits, fleet.replicas()).value());
    }
    return run_simulation(fleet, machines, workload, options);
  }
  SimulationResult run(std::vector<Arrival> arrivals) {
    ListedWorkload workload(std::move(arrivals));
    return run(workload);
  }

  // All that a report says of it.
  std::string json(SimulationResult result) const {
    Report report;
    report.model = model;
    report.fleets.push_back({.fleet = fleet, .result = std::move(result), .max_rate = {}});
    std::ostringstream out;
    write_json(report, out);
    return out.str();
  }

  Fleet fleet;
  Model model;
  MachineOptions machine;
  SimulationOptions options;
};

// Short and long prompts and answers.
inline SyntheticOptions mixed_requests(double rate, uint64_t requests) {
  SyntheticOptions options;
  options.rate = rate;
  options.requests = requests;
  options.kinds = {*parse_kind("0.7/uniform:20:200/uniform:1:100"), *parse_kind("0.3/lognormal:900:0.5:3000/30")};
  return options;
}

}  // namespace twostroke::simulate
