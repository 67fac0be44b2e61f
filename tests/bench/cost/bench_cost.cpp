// bench_cost: how well the cost model predicts the CPU backend's steps. See README.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/cost/step_probe.h"

namespace twostroke {
namespace {

struct Options {
  std::string model;
  int threads = 0;
  int steps = 60;  // of each load
  uint32_t seed = 1;
  double calibration_seconds = 2.5;
  bool samples = false;
  bool each = false;
};

struct Load {
  const char* name;
  uint32_t decodes_max;
  uint32_t context_max;
  uint32_t chunk_max;  // 0: decodes alone
  double chunks;       // part of the steps that have one
};

constexpr Load kLoads[] = {
    {"chat", 12, 600, 128, 0.4},
    {"decodes alone", 32, 400, 0, 0},
    {"long prompts", 4, 1500, 256, 0.9},
    {"chat again", 12, 600, 128, 0.4},
};

struct HeldOut {
  const char* load;
  StepShape shape;
  double measured_ns;
  double calibrated_ns;
  double learned_ns;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double error(double predicted, double measured) { return std::abs(predicted - measured) / measured; }

std::string kind_of(const StepShape& shape) {
  const auto bucket = [](uint32_t n) { return n == 0 ? 0 : 1U << (31 - static_cast<uint32_t>(__builtin_clz(n))); };
  char text[64];
  std::snprintf(text, sizeof text, "%3u+ decodes, %3u+ prefill tokens", bucket(shape.decode_tokens),
                bucket(shape.prefill_tokens));
  return text;
}

class Bench {
 public:
  Bench(const Options& options, Backend& backend) : options_(options), probe_(backend, steady_clock()) {}

  Status run(const CostCoefficients& calibrated) {
    while (probe_.depth() + 256 <= std::min(probe_.depth_max(), 1536U)) {
      if (const auto sample = probe_.extend(256); !sample.ok()) return sample.status();
    }
    uint32_t spread = 1;
    for (const Load& load : kLoads) spread = std::max(spread, load.decodes_max + 1);
    spread = std::min(spread, probe_.spread_rows_max(probe_.depth()));
    if (Status status = probe_.spread(spread, probe_.depth()); !status.ok()) return status;
    CostModel model(calibrated, CostModel::Prior::kCalibrated);
    std::mt19937 random(options_.seed);
    for (const Load& load : kLoads) {
      for (int i = 0; i < options_.steps; ++i) {
        const auto rows = draw(load, random);
        const auto sample = probe_.run(rows);
        if (!sample.ok()) return sample.status();
        if (i % 2 == 0) {
          model.learn(sample->shape, sample->duration_ns);
        } else {
          held_out_.push_back({load.name, sample->shape, static_cast<double>(sample->duration_ns),
                               predict_ns(calibrated, sample->shape), model.predict_ns(sample->shape)});
        }
      }
    }
    print();
    std::printf("\nridge: %u tokens; worthwhile step: %u tokens of 512 at most\n", model.ridge_tokens({}, 512),
                model.worthwhile_tokens(512));
    return {};
  }

 private:
  std::vector<ProbeRow> draw(const Load& load, std::mt19937& random) const {
    const auto up_to = [&](uint32_t most) { return std::uniform_int_distribution<uint32_t>(1, most)(random); };
    const uint32_t depth = std::min(load.context_max, probe_.depth());
    std::vector<ProbeRow> rows(up_to(load.decodes_max));
    for (ProbeRow& row : rows) row.position = up_to(depth);
    if (load.chunk_max > 0 && std::uniform_real_distribution<double>(0, 1)(random) < load.chunks) {
      rows.push_back({.position = up_to(depth), .tokens = up_to(load.chunk_max), .decodes = false});
    }
    return rows;
  }

  void print() const {
    if (options_.each) {
      std::printf(
          "\nload,decodes,decode_context,prefill_tokens,prefill_context,measured_ms,calibrated_ms,learned_ms\n");
      for (const HeldOut& h : held_out_) {
        std::printf("%s,%u,%llu,%u,%llu,%.3f,%.3f,%.3f\n", h.load, h.shape.decode_tokens,
                    static_cast<unsigned long long>(h.shape.decode_context), h.shape.prefill_tokens,
                    static_cast<unsigned long long>(h.shape.prefill_context), h.measured_ns * 1e-6,
                    h.calibrated_ns * 1e-6, h.learned_ns * 1e-6);
      }
    }
    std::map<std::string, std::vector<const HeldOut*>> kinds;
    for (const HeldOut& h : held_out_) kinds[kind_of(h.shape)].push_back(&h);
    std::printf("\n%-38s %6s %12s %12s %8s\n", "held-out steps", "steps", "measured ms", "predicted ms", "error");
    for (const auto& [kind, steps] : kinds) {
      std::vector<double> measured;
      std::vector<double> predicted;
      std::vector<double> errors;
      for (const HeldOut* h : steps) {
        measured.push_back(h->measured_ns);
        predicted.push_back(h->learned_ns);
        errors.push_back(error(h->learned_ns, h->measured_ns));
      }
      std::printf("%-38s %6zu %12.2f %12.2f %7.1f%%\n", kind.c_str(), steps.size(), 1e-6 * median(measured),
                  1e-6 * median(predicted), 100 * median(errors));
    }
    std::printf("\n%-20s %6s %20s %20s\n", "load, in this order", "steps", "calibration alone", "learning");
    for (const Load& load : kLoads) print_load(load.name);
    print_load("all");
  }

  void print_load(const std::string& name) const {
    std::vector<double> calibrated;
    std::vector<double> learned;
    for (const HeldOut& h : held_out_) {
      if (name != "all" && name != h.load) continue;
      calibrated.push_back(error(h.calibrated_ns, h.measured_ns));
      learned.push_back(error(h.learned_ns, h.measured_ns));
    }
    std::printf("%-20s %6zu %19.1f%% %19.1f%%\n", name.c_str(), learned.size(), 100 * median(calibrated),
                100 * median(learned));
  }

  const Options& options_;
  StepProbe probe_;
  std::vector<HeldOut> held_out_;
};

int run(const Options& options) {
  CpuBackendOptions backend_options;
  backend_options.model_path = options.model;
  backend_options.threads = options.threads;
  const auto backend = CpuBackend::create(backend_options, nullptr);
  if (!backend.ok()) return std::fprintf(stderr, "bench_cost: %s\n", backend.status().message().c_str()), 1;
  const auto calibration =
      calibrate(**backend, steady_clock(),
                {.time_max_ns = static_cast<TimeNs>(options.calibration_seconds * static_cast<double>(kSecondNs))});
  if (!calibration.ok()) return std::fprintf(stderr, "bench_cost: %s\n", calibration.status().message().c_str()), 1;
  const CostCoefficients& costs = calibration->costs;
  std::printf("%s, %s: calibrated in %.2f s with %zu steps; they are missed by %.1f%% (median)\n",
              options.model.c_str(), (*backend)->info().name.c_str(), to_seconds(calibration->duration_ns),
              calibration->samples.size(), 100 * calibration->error_ratio);
  std::printf("\n%8s %12s %12s\n", "tokens", "ms", "ms/token");
  for (size_t i = 0; i < kCostKnotCount && kCostKnots[i] <= 1024; ++i) {
    std::printf("%8u %12.2f %12.3f\n", kCostKnots[i], 1e-6 * costs.token_ns[i],
                1e-6 * costs.token_ns[i] / kCostKnots[i]);
  }
  std::printf("%.1f us a logit token; %.3f us a position in prefill, %.3f us in decode\n", 1e-3 * costs.logit_ns,
              1e-3 * costs.prefill_position_ns, 1e-3 * costs.decode_position_ns);
  if (options.samples) {
    std::printf("\ndecodes,decode_context,prefill_tokens,prefill_context,measured_ms,calibrated_ms\n");
    for (const CostSample& sample : calibration->samples) {
      std::printf("%u,%llu,%u,%llu,%.3f,%.3f\n", sample.shape.decode_tokens,
                  static_cast<unsigned long long>(sample.shape.decode_context), sample.shape.prefill_tokens,
                  static_cast<unsigned long long>(sample.shape.prefill_context), to_seconds(sample.duration_ns) * 1e3,
                  predict_ns(costs, sample.shape) * 1e-6);
    }
  }
  Bench bench(options, **backend);
  const Status status = bench.run(costs);
  if (!status.ok()) return std::fprintf(stderr, "bench_cost: %s\n", status.message().c_str()), 1;
  return 0;
}

}  // namespace
}  // namespace twostroke

int main(int argc, char** argv) {
  twostroke::Options options;
  CLI::App app("How well the cost model predicts the steps of the CPU backend");
  app.add_option("--model", options.model, "GGUF file")->required();
  app.add_option("--threads", options.threads, "0: as many as this process may run on")->check(CLI::Range(0, 512));
  app.add_option("--steps", options.steps, "steps of each load")->check(CLI::Range(4, 100'000))->capture_default_str();
  app.add_option("--seed", options.seed, "of the random steps")->capture_default_str();
  app.add_option("--calibration-seconds", options.calibration_seconds, "what the calibration may take")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  app.add_flag("--samples", options.samples, "print the steps that the calibration is fitted to, as CSV");
  app.add_flag("--each", options.each, "print every held-out step, as CSV");
  CLI11_PARSE(app, argc, argv);
  return twostroke::run(options);
}
