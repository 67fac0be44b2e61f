#include "server/simulate/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

namespace twostroke::simulate {
namespace {

constexpr int kUsageError = 2;

constexpr const char* kAbout =
    "Predicts how a fleet would serve a workload: the scheduler of `serve` over simulated machines, in virtual time.\n"
    "\n"
    "Examples:\n"
    "  What does one H100 do with 5 requests a second?\n"
    "    twostroke simulate --model Llama-3.1-8B --fleet H100 --rate 5 --ttft-ms 500 --tpot-ms 50\n"
    "  Four L40S or two A100, for long documents with short answers?\n"
    "    twostroke simulate --fleet 4xL40S --fleet 2xA100-80GB --prompt-tokens 8000 --output-tokens 50\n"
    "        --ttft-ms 4000 --tpot-ms 100 --find-max-rate\n"
    "  A recorded hour, prefill and decode on machines of their own:\n"
    "    twostroke simulate --model Llama-3.1-70B --fleet prefill=8xH100:tp4,decode=8xH100:tp4\n"
    "        --workload azure_llm_2023_conv.csv --trace steps.json\n"
    "\n"
    "Several fleets at one rate: one keeps up if its last answer comes after the last request in at most twice the\n"
    "time that it would take with a machine to itself, or little later (server/simulate/load.h). The one that keeps\n"
    "up, with enough good requests (--good-share), is the best; of several none is, but --price names the cheapest.\n"
    "\n"
    "Fleets: COUNTxPROFILE, COUNTxPROFILE:tpN for N devices to a replica (tensor parallelism), or\n"
    "prefill=...,decode=... ; profiles: ";

// CLI::Range lets NaN pass, which is neither below nor above anything.
class RealRange final : public CLI::Validator {
 public:
  RealRange(double least, double most) {
    const CLI::Range range(least, most);
    description(range.get_description());
    func_ = [range](std::string& text) {
      double value = 0;
      if (CLI::detail::lexical_cast(text, value) && std::isnan(value)) return "Value " + text + " is not a number";
      return range(text);
    };
  }
};

std::string about() {
  std::string text = kAbout;
  for (const Hardware& hardware : hardware_profiles()) text += hardware.name + ", ";
  text += "or a JSON file (see server/simulate/README.md).\n\nModels: ";
  for (const ModelShape& shape : model_shapes()) text += shape.name + ", ";
  return text + "a GGUF file, or a config.json.";
}

void declare_machines(CLI::App& app, SimulateOptions& o) {
  using CLI::Range;
  auto* model = app.add_option_group("Model");
  model->add_option("--model", o.model, "A model by name (as listed above), a GGUF file, or a config.json");
  model->add_option("--weights", o.weights,
                    std::string("Type of weights: ") + kWeightTypes + "; default: f16, or as in a GGUF file");
  model->add_option("--kv-dtype", o.kv_type, std::string("Numbers in the KV cache: ") + kKvTypes);
  model->add_option("--context-max", o.machine.context_max, "Tokens of a sequence; 0: the model's limit")
      ->check(Range(0u, 1u << 24));

  auto* machines = app.add_option_group("Machines");
  machines->add_option("--fleet", o.fleets, "A fleet; give several to compare them")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  machines->add_option("--router", o.router,
                       "Who gets a request: round_robin, least_loaded, prefix_aware (server/simulate/router.h)");
  machines->add_option("--price", o.prices, "Price of a device-hour, PROFILE=PRICE; may be given several times")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  machines->add_option("--calibration", o.calibration,
                       "Step times as measured on a machine: a file from the cache folder of `serve`, in the place of "
                       "the roofline; for fleets of that machine only");
  machines->add_option("--memory-fraction", o.machine.memory_fraction, "Of each device's memory, for weights and KV")
      ->check(RealRange(0.01, 1.0));
  machines
      ->add_option("--kv-memory-mb", o.machine.kv_memory_mb,
                   "Memory for the KV cache of a replica in MiB; 0: what the weights leave")
      ->check(Range(uint64_t{0}, uint64_t{1} << 24));
  machines->add_option("--block-size", o.machine.block_size, "Positions in a KV block")->check(Range(1u, 1024u));
  machines->add_option("--link-gbit-per-s", o.link_gbit_per_s, "From a prefill machine to decode machines, for KV")
      ->check(RealRange(0.001, 1e6));
  machines->add_option("--link-latency-us", o.link_latency_us, "Of one transfer over it")->check(RealRange(0.0, 1e7));
}

void declare_workload(CLI::App& app, SimulateOptions& o) {
  using CLI::Range;
  auto* workload = app.add_option_group("Workload");
  workload->add_option("--workload", o.workload,
                       "A trace: .csv (Azure) or .jsonl (Mooncake); default: synthetic, as follows");
  workload->add_option("--rate", o.rate, "Synthetic requests per second, a Poisson process")
      ->check(RealRange(kRateMin, kRateMax));
  workload->add_option("--prompt-tokens", o.prompt_lengths,
                       "Prompt lengths: 512, uniform:LOW:HIGH, or lognormal:MEDIAN:SIGMA[:MAX]");
  workload->add_option("--output-tokens", o.output_lengths, "Answer lengths, likewise");
  workload
      ->add_option("--mix", o.kinds,
                   "A kind of request, WEIGHT/PROMPT/OUTPUT, in the place of the two above; give several to mix")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  workload->add_option("--prefix-tokens", o.prefix_tokens, "Tokens in front of each prompt that many share")
      ->check(Range(0u, kLengthMax));
  workload->add_option("--prefix-groups", o.prefix_groups, "How many different ones there are")
      ->check(Range(1u, 1u << 24));
  workload->add_option("--requests", o.requests, "How many; 0: 1,000 synthetic ones, or all of a trace")
      ->check(Range(uint64_t{0}, kRequestsMax));
  workload->add_option("--from-s", o.from_seconds, "Leave out what arrives before")->check(RealRange(0.0, 1e9));
  workload->add_option("--for-s", o.for_seconds, "And what arrives so long after that; 0: nothing")
      ->check(RealRange(0.0, 1e9));
  workload->add_option("--rate-scale", o.rate_scale, "A trace's arrivals come so many times as fast")
      ->check(RealRange(kRateMin, kRateMax));
  workload->add_option("--seed", o.seed, "Of everything that is drawn; the same seed gives the same result");
}

// serve's orders, but for the one that needs what no simulated request has.
std::string check_order(const std::string& name) {
  if (name == name_of(Order::kFair)) {
    return "fair shares the machine between tenants, and no simulated request has one: of a single tenant it is fcfs";
  }
  return order_named(name) ? std::string() : "there is no order '" + name + "'; there are fcfs and shortest";
}

void declare_scheduling(CLI::App& app, SimulateOptions& o) {
  using CLI::Range;
  // Said where the default is another than serve's.
  const SchedulerLimits serve = {};
  auto* scheduling = app.add_option_group("Scheduling (as in serve, two defaults are larger)");
  scheduling
      ->add_option("--max-step-tokens", o.limits.max_step_tokens,
                   "Tokens in one step, decodes and prefill; serve's own default is " +
                       std::to_string(serve.max_step_tokens) + ", for a processor; this one is for an accelerator")
      ->check(Range(1u, 1u << 20));
  scheduling
      ->add_option("--max-chunk-tokens", o.limits.max_chunk_tokens,
                   "Tokens of one prefill chunk; 0: what the objective leaves, or what is worthwhile")
      ->check(Range(0u, 1u << 20));
  scheduling
      ->add_option("--itl-target-ms", o.itl_target_ms,
                   "Between two tokens: prefill takes what this leaves; 0: no matter")
      ->check(RealRange(0.0, 1e6));
  scheduling
      ->add_option(
          "--max-running", o.limits.max_running,
          "Sequences running at once on a replica; serve's own default is " + std::to_string(serve.max_running))
      ->check(Range(1u, 1u << 16));
  scheduling->add_option("--max-waiting-requests", o.limits.max_waiting_requests, "Requests waiting on a replica")
      ->check(Range(1u, 1u << 24));
  scheduling->add_option("--max-waiting-tokens", o.limits.max_waiting_tokens, "Prompt tokens waiting on a replica")
      ->check(Range(uint64_t{1}, uint64_t{1} << 40));
  scheduling
      ->add_option("--order", o.order, "Who of those that wait goes first: fcfs, shortest (scheduler/order/order.h)")
      ->check(check_order);
  scheduling->add_option("--aging-ms", o.limits.aging_ms, "Once in so long the longest waiting goes first; 0: never")
      ->check(Range(0u, 86'400'000u));
  scheduling->add_option("--max-preemptions", o.limits.max_preemptions, "Of one sequence, where another can give way")
      ->check(Range(0u, 1u << 24));
  scheduling->add_option("--max-overtakes", o.limits.max_overtakes, "How often a waiting request may be passed over")
      ->check(Range(0u, 1u << 24));
  scheduling
      ->add_flag("--prefix-cache,!--no-prefix-cache", o.limits.prefix_cache, "Reuse the KV of equal prompt beginnings")
      ->default_str("true");
}

void declare_results(CLI::App& app, SimulateOptions& o) {
  using CLI::Range;
  auto* results = app.add_option_group("Objectives and results");
  results->add_option("--ttft-ms", o.ttft_ms, "A request is good if its first token comes within this; 0: no matter")
      ->check(RealRange(0.0, 1e9));
  results->add_option("--tpot-ms", o.tpot_ms, "And if its other tokens take this on average; 0: no matter")
      ->check(RealRange(0.0, 1e9));
  results->add_flag("--find-max-rate", o.find_max_rate,
                    "Find the highest rate (of a trace: --rate-scale) at which enough requests are good; in the place "
                    "of --rate");
  results->add_option("--good-share", o.good_share, "How many are enough, of all that arrive")
      ->check(RealRange(0.01, 1.0));
  results->add_option("--json", o.json, "Write the results to this file as JSON; - writes them in the table's place");
  results->add_option("--trace", o.trace,
                      "Write every step to this file, for ui.perfetto.dev; with one fleet, without --find-max-rate");
}

bool same_place(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code error;  // of a path without a folder; then it names no file
  return std::filesystem::absolute(a, error).lexically_normal() ==
         std::filesystem::absolute(b, error).lexically_normal();
}

// What no single option can see.
std::string conflict(const SimulateOptions& o) {
  if (o.fleets.size() > kFleetsMax) return "at most " + std::to_string(kFleetsMax) + " fleets are compared";
  if (o.kinds.size() > kKindsMax) return "at most " + std::to_string(kKindsMax) + " kinds of request are mixed (--mix)";
  if (o.find_max_rate && o.ttft_ms == 0 && o.tpot_ms == 0) {
    return "--find-max-rate needs something to meet: give --ttft-ms, --tpot-ms or both";
  }
  if (!o.trace.empty() && (o.fleets.size() > 1 || o.find_max_rate)) {
    return "--trace shows one run: give one --fleet, and no --find-max-rate";
  }
  for (const auto& [flag, file] : {std::pair("--trace", o.trace), std::pair("--json", o.json)}) {
    if (!file.ends_with(".csv") && !file.ends_with(".jsonl")) continue;
    return std::string(flag) + " is written, and '" + file +
           "' has the name of a trace of requests: to read one give --workload, to write choose another ending";
  }
  if (o.trace == "-") return "--trace takes a file: it cannot go where the results are printed";
  if (!o.trace.empty() && !o.json.empty() && same_place(o.trace, o.json)) {
    return "--trace and --json name the same file '" + o.json + "': give each its own";
  }
  if (o.itl_target_ms > 0 && o.itl_target_ms < kItlTargetMsMin) {
    return "--itl-target-ms must be 0 for none, or at least 0.001";
  }
  return {};
}

}  // namespace

SimulateCommand parse_simulate_command(const std::vector<std::string>& arguments, std::ostream& out,
                                       std::ostream& err) {
  SimulateCommand command;
  SimulateOptions& options = command.options;
  // What suits an accelerator; serve's own defaults suit a processor.
  options.limits.max_step_tokens = 2048;
  options.limits.max_running = 256;
  CLI::App app(about(), "twostroke simulate");
  app.get_formatter()->column_width(36);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->always_capture_default();
  declare_machines(app, options);
  declare_workload(app, options);
  declare_scheduling(app, options);
  declare_results(app, options);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes a vector from its end
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    command.exit_code = app.exit(error, out, err) == 0 ? 0 : kUsageError;
    return command;
  }
  if (const std::string reason = conflict(options); !reason.empty()) {
    err << "twostroke simulate: " << reason << "\n";
    command.exit_code = kUsageError;
    return command;
  }
  // Synthetic settings mean nothing beside a trace, and the other way round: said, not passed over.
  const auto given = [&app](const char* flag) { return app.get_option(flag)->count() > 0; };
  for (const char* flag :
       {"--rate", "--prompt-tokens", "--output-tokens", "--mix", "--prefix-tokens", "--prefix-groups"}) {
    if (!options.workload.empty() && given(flag)) {
      err << "twostroke simulate: " << flag << " is for synthetic requests, but --workload names a trace"
          << (flag == std::string("--rate") ? "; use --rate-scale" : "") << "\n";
      command.exit_code = kUsageError;
      return command;
    }
  }
  if (options.workload.empty() && given("--rate-scale")) {
    err << "twostroke simulate: --rate-scale is for a trace (--workload); use --rate\n";
    command.exit_code = kUsageError;
    return command;
  }
  for (const char* flag : {"--rate", "--rate-scale"}) {
    if (!options.find_max_rate || !given(flag)) continue;
    err << "twostroke simulate: --find-max-rate finds the rate itself: leave out " << flag
        << ", or leave out --find-max-rate to see what happens at that one\n";
    command.exit_code = kUsageError;
    return command;
  }
  if (!options.kinds.empty() && (given("--prompt-tokens") || given("--output-tokens"))) {
    err << "twostroke simulate: --mix takes the place of --prompt-tokens and --output-tokens; give one or the other\n";
    command.exit_code = kUsageError;
    return command;
  }
  options.limits.order = *order_named(options.order);
  options.limits.itl_target_ns = static_cast<TimeNs>(options.itl_target_ms * 1e6);
  command.run = true;
  return command;
}

}  // namespace twostroke::simulate
