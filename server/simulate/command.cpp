#include "server/simulate/command.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <new>
#include <ostream>
#include <set>
#include <utility>

#include "kernels/printable.h"
#include "server/simulate/calibration_file.h"
#include "server/simulate/chrome_trace.h"
#include "server/simulate/options.h"
#include "server/simulate/progress_bar.h"
#include "server/simulate/report.h"
#include "server/simulate/trace_file.h"

namespace twostroke::simulate {
namespace {

constexpr uint64_t kSyntheticRequests = 1000;

// Everything that the options name, found and checked.
struct Plan {
  Model model;
  std::vector<Fleet> fleets;
  std::vector<std::vector<MachineSpec>> machines;  // of each fleet's groups
  SyntheticOptions synthetic;
  SimulationOptions simulation;
  std::string workload;           // in words
  std::string calibration;        // its key; "": none
  std::string calibration_words;  // what it is of
  std::string calibration_doubt;  // why it may be of something else
};

Result<std::map<std::string, double>> parse_prices(const std::vector<std::string>& texts) {
  std::map<std::string, double> prices;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    double price = -1;
    if (equals != std::string::npos) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + equals + 1, end, price);
      if (error != std::errc() || stop != end) price = -1;
    }
    if (!(price >= 0 && price <= kPricePerHourMax)) {
      return invalid_argument("'" + text + "' is no price: write --price H100=2.5, with a price from 0 to " +
                              std::to_string(static_cast<uint64_t>(kPricePerHourMax)));
    }
    const Result<Hardware> hardware = find_hardware(text.substr(0, equals));
    if (!hardware.ok()) return hardware.status();
    if (!prices.emplace(hardware->name, price).second) {
      return invalid_argument("--price is given twice for " + hardware->name + ": leave one out");
    }
  }
  return prices;
}

// A price that no fleet asks for is a slip: of a name, most likely.
Status check_prices(const std::map<std::string, double>& prices, const std::vector<Fleet>& fleets) {
  std::set<std::string> names;
  for (const Fleet& fleet : fleets) {
    for (const Group& group : fleet.groups) names.insert(group.hardware.name);
  }
  for (const auto& [name, price] : prices) {
    if (names.contains(name)) continue;
    std::string all;
    for (const std::string& other : names) all += (all.empty() ? "" : ", ") + other;
    return invalid_argument("--price is given for " + name + ", which no fleet has; the machines of this run are " +
                            all);
  }
  return {};
}

Status plan_machines(const SimulateOptions& options, Plan& plan) {
  Result<Model> model = find_model(options.model, options.weights, options.kv_type);
  if (!model.ok()) return model.status();
  plan.model = std::move(*model);
  const Result<std::map<std::string, double>> prices = parse_prices(options.prices);
  if (!prices.ok()) return prices.status();
  for (const std::string& text : options.fleets) {
    Result<Fleet> fleet = parse_fleet(text, *prices);
    if (!fleet.ok()) return fleet.status();
    std::vector<MachineSpec>& machines = plan.machines.emplace_back();
    for (const Group& group : fleet->groups) {
      Result<MachineSpec> machine = make_machine(group, plan.model, options.machine, options.limits, fleet->replicas());
      if (!machine.ok()) return machine.status();
      machines.push_back(std::move(*machine));
    }
    plan.fleets.push_back(std::move(*fleet));
  }
  return check_prices(*prices, plan.fleets);
}

Status plan_synthetic(const SimulateOptions& options, Plan& plan) {
  SyntheticOptions& synthetic = plan.synthetic;
  synthetic.seed = options.seed;
  synthetic.rate = options.rate;
  synthetic.requests = options.requests > 0 ? options.requests : kSyntheticRequests;
  synthetic.prefix_tokens = options.prefix_tokens;
  synthetic.prefix_groups = options.prefix_groups;
  plan.workload = std::to_string(synthetic.requests) + " requests, seed " + std::to_string(options.seed) + ": ";
  if (options.kinds.empty()) {
    const Result<Lengths> prompt = parse_lengths(options.prompt_lengths);
    if (!prompt.ok()) return invalid_argument("--prompt-tokens: " + prompt.status().message());
    const Result<Lengths> output = parse_lengths(options.output_lengths);
    if (!output.ok()) return invalid_argument("--output-tokens: " + output.status().message());
    synthetic.kinds.push_back({.weight = 1, .prompt = *prompt, .output = *output});
    plan.workload += "prompts of " + options.prompt_lengths + ", answers of " + options.output_lengths + " tokens";
  }
  for (const std::string& text : options.kinds) {
    Result<RequestKind> kind = parse_kind(text);
    if (!kind.ok()) return invalid_argument("--mix: " + kind.status().message());
    plan.workload += (synthetic.kinds.empty() ? "mix of " : " and ") + text;
    synthetic.kinds.push_back(std::move(*kind));
  }
  if (options.prefix_tokens > 0) {
    plan.workload += ", behind " + std::to_string(options.prefix_tokens) + " tokens that each of " +
                     std::to_string(options.prefix_groups) + " groups shares";
  }
  return {};
}

// A calibration takes the place of a machine's own times: two different ones would come out alike.
Status check_calibrated(const std::vector<Fleet>& fleets) {
  const Group& first = fleets.front().groups.front();
  for (const Fleet& fleet : fleets) {
    for (const Group& group : fleet.groups) {
      if (group.tensor_parallel > 1) {
        return invalid_argument("--calibration tells the times of one machine, but the fleet '" + fleet.name +
                                "' has replicas of " + std::to_string(group.tensor_parallel) + " devices");
      }
      if (group.hardware.name != first.hardware.name) {
        return invalid_argument("--calibration tells the times of one machine, but " + first.hardware.name + " and " +
                                group.hardware.name +
                                " are two, which it would make alike: give fleets of the machine that it was "
                                "measured on");
      }
    }
  }
  return {};
}

// Times as measured, which the scheduler knows from the start as it does in `serve`.
Status plan_calibration(const SimulateOptions& options, Plan& plan) {
  if (Status status = check_calibrated(plan.fleets); !status.ok()) return status;
  Result<CalibrationFile> file = read_calibration(options.calibration);
  if (!file.ok()) return file.status();
  plan.calibration = file->key;
  plan.calibration_words = calibrated_words(*file);
  for (const std::string& doubt :
       {model_doubt(*file, options.model), machine_doubt(*file, plan.fleets.front().groups.front().hardware),
        limits_doubt(*file, options.limits)}) {
    if (!doubt.empty()) plan.calibration_doubt += (plan.calibration_doubt.empty() ? "" : "; ") + doubt;
  }
  plan.simulation.limits.costs = file->costs;
  plan.simulation.calibrated = [costs = file->costs](const StepShape& shape) {
    return predict_ns(costs, shape) * 1e-9;
  };
  return {};
}

Result<Plan> make_plan(const SimulateOptions& options) {
  Plan plan;
  if (Status status = plan_machines(options, plan); !status.ok()) return status;
  const std::optional<RouterPolicy> router = parse_router(options.router);
  if (!router) {
    return invalid_argument("there is no router '" + options.router +
                            "'; there are round_robin, least_loaded and prefix_aware");
  }
  if (options.workload.empty()) {
    if (Status status = plan_synthetic(options, plan); !status.ok()) return status;
  } else {
    plan.workload = options.workload + ", seed " + std::to_string(options.seed);
  }
  SimulationOptions& simulation = plan.simulation;
  simulation.limits = options.limits;
  if (!options.calibration.empty()) {
    if (Status status = plan_calibration(options, plan); !status.ok()) return status;
  }
  simulation.router = *router;
  if (options.ttft_ms > 0) simulation.targets.ttft_ms = options.ttft_ms;
  if (options.tpot_ms > 0) simulation.targets.tpot_ms = options.tpot_ms;
  simulation.link.bytes_per_second = options.link_gbit_per_s * 1e9 / 8;
  simulation.link.latency_us = options.link_latency_us;
  return plan;
}

// `rate`: requests per second of a synthetic workload, the scale of a trace.
Result<std::unique_ptr<Workload>> open_workload(const SimulateOptions& options, const Plan& plan, double rate) {
  WorkloadWindow window;
  window.from_seconds = options.from_seconds;
  window.for_seconds = options.for_seconds;
  if (options.workload.empty()) {
    SyntheticOptions synthetic = plan.synthetic;
    synthetic.rate = rate;
    return cut(make_synthetic(synthetic), window);
  }
  window.requests_max = options.requests;
  window.rate_scale = rate;
  Result<std::unique_ptr<Workload>> trace = open_trace(options.workload, options.seed);
  if (!trace.ok()) return trace.status();
  return cut(std::move(*trace), window);
}

Result<SimulationResult> run_once(const SimulateOptions& options, const Plan& plan, size_t fleet, double rate,
                                  const SimulationOptions& simulation) {
  Result<std::unique_ptr<Workload>> workload = open_workload(options, plan, rate);
  if (!workload.ok()) return workload.status();
  Result<SimulationResult> result = run_simulation(plan.fleets[fleet], plan.machines[fleet], **workload, simulation);
  if (result.ok() && result->offered == 0) {
    return invalid_argument("the workload has no requests: check --from-s and --for-s");
  }
  return result;
}

struct RequestCounts {
  uint64_t all = 0;
  uint64_t too_long = 0;  // for the fleet
};

Result<RequestCounts> count_requests(const SimulateOptions& options, const Plan& plan, size_t fleet) {
  Result<std::unique_ptr<Workload>> workload = open_workload(options, plan, 1);
  if (!workload.ok()) return workload.status();
  const uint32_t tokens_max = sequence_tokens_max(plan.machines[fleet]);
  Arrival arrival;
  RequestCounts counts;
  while (true) {
    const Result<bool> more = (*workload)->next(arrival);
    if (!more.ok()) return more.status();
    if (!*more) return counts;
    ++counts.all;
    if (arrival.prompt_tokens >= tokens_max) ++counts.too_long;
  }
}

Result<FleetReport> simulate_fleet(const SimulateOptions& options, const Plan& plan, size_t fleet, ProgressBar& bar) {
  FleetReport report;
  report.fleet = plan.fleets[fleet];
  SimulationOptions simulation = plan.simulation;
  simulation.on_progress = [&bar](double progress) { bar.show(progress); };
  if (options.find_max_rate) {
    const Result<RequestCounts> counts = count_requests(options, plan, fleet);
    if (!counts.ok()) return counts.status();
    // A window in seconds holds other requests at every rate of a synthetic workload.
    const bool counted = !options.workload.empty() || options.for_seconds == 0;
    if (counted && counts->all > 0 && counts->too_long == counts->all) {
      report.max_rate.emplace();
      report.max_rate->failed.offered = report.max_rate->failed.too_long = counts->all;
      return report;
    }
    // So many may miss before a rate is known to be too high.
    const double misses = (1 - options.good_share) * static_cast<double>(counts->all);
    if (counted) simulation.misses_max = static_cast<uint64_t>(misses);
    MaxRateOptions search;
    search.start = options.workload.empty() ? options.rate : options.rate_scale;
    search.good_share_min = options.good_share;
    uint32_t tries = 0;
    Result<MaxRate> found = find_max_rate(search, [&](double rate) {
      bar.begin(plan.fleets[fleet].name + ", try " + std::to_string(++tries));
      return run_once(options, plan, fleet, rate, simulation);
    });
    if (!found.ok()) return Status(found.status().code(), plan.fleets[fleet].name + ": " + found.status().message());
    if (found->rate > 0 && found->failed.stopped) {
      // By how much it failed is known at its end only.
      simulation.misses_max = UINT64_MAX;
      bar.begin(plan.fleets[fleet].name + ", beyond its highest rate");
      Result<SimulationResult> whole = run_once(options, plan, fleet, found->failed_rate, simulation);
      if (!whole.ok()) return whole.status();
      found->failed = std::move(*whole);
    }
    report.result = std::exchange(found->result, {});
    report.max_rate = std::move(*found);
    return report;
  }
  std::unique_ptr<ChromeTrace> trace;
  if (!options.trace.empty()) {
    Result<std::unique_ptr<ChromeTrace>> opened =
        ChromeTrace::open(options.trace, plan.fleets[fleet], plan.machines[fleet]);
    if (!opened.ok()) return opened.status();
    trace = std::move(*opened);
    simulation.observer = trace.get();
  }
  bar.begin(plan.fleets[fleet].name);
  const double rate = options.workload.empty() ? options.rate : options.rate_scale;
  Result<SimulationResult> result = run_once(options, plan, fleet, rate, simulation);
  if (!result.ok()) return result.status();
  if (trace != nullptr) {
    if (Status status = trace->close(); !status.ok()) return status;
    report.trace_full = trace->full();
  }
  report.result = std::move(*result);
  return report;
}

Status not_writable(const std::string& path) {
  return invalid_argument("the results could not be written to '" + path +
                          "'; does its folder exist, and may this user write there?");
}

// Before a run that may take long. A pipe is not tried: its reader would take that for the end.
Status check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty() || path == "-") return {};
  std::error_code error;  // then it is no folder, and is tried
  const bool is_new = !fs::exists(fs::symlink_status(path, error));
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    return fs::is_directory(path, error) ? not_writable(path) : Status();
  }
  if (!std::ofstream(path, std::ios::binary | std::ios::app)) return not_writable(path);
  if (is_new) fs::remove(path, error);  // a run that fails leaves nothing
  return {};
}

// Requests that are too long for all fleets tell nothing of any.
Status check_fits(const Report& report, const Plan& plan) {
  uint32_t tokens_max = 0;
  uint64_t offered = 0;
  for (size_t i = 0; i < report.fleets.size(); ++i) {
    const FleetReport& fleet = report.fleets[i];
    const SimulationResult& result =
        fleet.max_rate && fleet.max_rate->rate == 0 ? fleet.max_rate->failed : fleet.result;
    if (!result.none_fits()) return {};
    tokens_max = std::max(tokens_max, sequence_tokens_max(plan.machines[i]));
    offered = result.offered;
  }
  return invalid_argument("none of the " + std::to_string(offered) + " requests fits: a sequence has at most " +
                          std::to_string(tokens_max) +
                          " tokens here, of prompt and answer together, and every prompt alone has as many or more; "
                          "give shorter ones, or more --context-max or --kv-memory-mb");
}

Status write_results(const SimulateOptions& options, const Report& report, std::ostream& out) {
  if (options.json == "-") {
    write_json(report, out);
    return {};
  }
  write_text(report, out);
  if (options.json.empty()) return {};
  std::ofstream file(options.json, std::ios::binary);
  write_json(report, file);
  file.close();
  if (file) return {};
  return not_writable(options.json);
}

int simulate_fleets(const SimulateOptions& options, std::ostream& out, std::ostream& err, bool show_progress) {
  const auto fail = [&err](const Status& status) {
    err << "twostroke simulate: " << printable(status.message()) << "\n";
    return 1;
  };
  if (Status status = check_writable(options.json); !status.ok()) return fail(status);
  Result<Plan> plan = make_plan(options);
  if (!plan.ok()) return fail(plan.status());
  Report report;
  report.model = plan->model;
  report.workload = plan->workload;
  report.calibration = plan->calibration;
  report.calibration_words = plan->calibration_words;
  report.calibration_doubt = plan->calibration_doubt;
  report.limits = plan->simulation.limits;
  report.rate_unit = options.workload.empty() ? "requests/s" : "times the trace's rate";
  report.router = plan->simulation.router;
  report.targets = plan->simulation.targets;
  report.good_share_min = options.good_share;
  ProgressBar bar(err, show_progress);
  for (size_t fleet = 0; fleet < plan->fleets.size(); ++fleet) {
    Result<FleetReport> one = simulate_fleet(options, *plan, fleet, bar);
    bar.clear();
    if (!one.ok()) return fail(one.status());
    report.fleets.push_back(std::move(*one));
  }
  if (Status status = check_fits(report, *plan); !status.ok()) return fail(status);
  if (Status status = write_results(options, report, out); !status.ok()) return fail(status);
  if (report.fleets.front().trace_full) {
    err << "twostroke simulate: the trace is full after " << kTraceEventsMax
        << " events and shows the beginning; choose a part with --from-s and --for-s\n";
  }
  return 0;
}

}  // namespace

int simulate_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                     bool show_progress) {
  const SimulateCommand command = parse_simulate_command(arguments, out, err);
  if (!command.run) return command.exit_code;
  try {
    return simulate_fleets(command.options, out, err, show_progress);
  } catch (const std::bad_alloc&) {
    err << "twostroke simulate: this machine has not enough memory: simulate fewer replicas, or less KV memory "
           "(--kv-memory-mb), or larger blocks (--block-size)\n";
    return 1;
  }
}

}  // namespace twostroke::simulate
