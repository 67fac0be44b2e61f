// bench_speculation: what speculation by prompt look-up gains where answers repeat what they were given.
//
//   build/release/bench_speculation --model FILE
//
// The tasks of tasks.cpp, as chats of a model with the ChatML template (SmolLM2), run through an Engine over the CPU
// backend, greedily, with speculation off and on, at each batch size: so many requests at a time until all are done.
// What counts is decode: steps without prefill in which as many sequences decode as the batch size says; tokens that
// they made, over their time. The cost model begins with a calibration, as in the server, and learns from a first run
// that is not counted. Beside it: that both ways gave the same tokens.
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "scheduler/cost/calibration.h"
#include "scheduler/engine.h"
#include "server/text/tokenizer.h"
#include "tests/bench/speculation/tasks.h"

namespace twostroke {
namespace {

struct Options {
  std::string model;
  int threads = 0;
  std::vector<uint32_t> batches = {1, 16};
  uint32_t max_tokens = 200;
  uint32_t max_draft_tokens = 8;
  uint32_t rounds = 1;
  float temperature = 0;
};

struct Measured {
  uint64_t steps = 0;
  uint64_t tokens = 0;
  uint64_t drafts = 0;
  uint64_t accepted = 0;
  TimeNs time_ns = 0;
  std::map<RequestId, std::vector<TokenId>> outputs;

  double tokens_per_second() const { return 1e9 * static_cast<double>(tokens) / static_cast<double>(time_ns); }
  double step_ms() const { return 1e-6 * static_cast<double>(time_ns) / static_cast<double>(steps); }
};

class Bench {
 public:
  Bench(const Options& options, Backend& backend, const Tokenizer& tokenizer, const CostCoefficients& costs)
      : options_(options), backend_(backend), tokenizer_(tokenizer), costs_(costs) {}

  Measured run(uint32_t batch, bool speculation) {
    measured_ = {};
    counted_batch_ = batch;
    unended_ = 0;
    SchedulerLimits limits;
    limits.max_running = batch;
    limits.costs = costs_;
    limits.max_draft_tokens = speculation ? options_.max_draft_tokens : 0;
    Engine engine(limits, {}, backend_, [this](StepOutput&& output) { take(output); });
    counting_ = false;
    serve(engine, batch, 1);  // the cost model learns
    counting_ = true;
    serve(engine, batch, options_.rounds);
    return std::move(measured_);
  }

 private:
  // Every task `rounds` times at least, and so often that the batch is full for a while; `batch` at a time.
  void serve(Engine& engine, uint32_t batch, uint32_t rounds) {
    const auto tasks = static_cast<uint32_t>(editing_tasks().size());
    const uint32_t requests = std::max(rounds * tasks, 2 * batch);
    for (uint32_t i = 0; i < requests; ++i) {
      await_fewer_than(batch);
      {
        const std::lock_guard lock(mutex_);
        ++unended_;
      }
      const Status status = engine.submit(request_of(editing_tasks()[i % tasks], i + (counting_ ? 1'000'000 : 0)));
      CHECK(status.ok(), status.message());
    }
    await_fewer_than(1);
  }

  Request request_of(const EditingTask& task, RequestId id) const {
    const std::string prompt =
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n" +
        std::string(task.instruction) + "\n\n" + task.text + "<|im_end|>\n<|im_start|>assistant\n";
    Request request;
    request.id = id;
    request.prompt = tokenizer_.encode(prompt, {.parse_special = true});
    request.max_tokens = options_.max_tokens;
    const auto stops = tokenizer_.end_of_generation();
    request.stop_tokens = {stops.begin(), stops.end()};
    request.sampling.temperature = options_.temperature;
    request.sampling.seed = id;
    return request;
  }

  void await_fewer_than(uint32_t requests) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return unended_ < requests; });
  }

  // On the step thread.
  void take(const StepOutput& output) {
    const std::lock_guard lock(mutex_);
    const StepCounts& counts = output.counts;
    if (counting_ && output.stepped && counts.shape.prefill_rows == 0 && counts.shape.decode_rows == counted_batch_) {
      ++measured_.steps;
      measured_.tokens += counts.sampled_tokens + counts.accepted_draft_tokens;
      measured_.drafts += counts.draft_tokens;
      measured_.accepted += counts.accepted_draft_tokens;
      measured_.time_ns += output.duration_ns;
    }
    for (const Event& event : output.events) {
      if (event.kind == Event::Kind::kToken && counting_) measured_.outputs[event.request].push_back(event.token);
      if (event.kind != Event::Kind::kEnded) continue;
      CHECK(event.outcome == Outcome::kFinished, event.error.message());
      --unended_;
      ended_.notify_one();
    }
  }

  const Options& options_;
  Backend& backend_;
  const Tokenizer& tokenizer_;
  const CostCoefficients costs_;
  std::mutex mutex_;
  std::condition_variable ended_;
  uint32_t unended_ = 0;
  bool counting_ = false;
  uint32_t counted_batch_ = 0;
  Measured measured_;
};

int fail(const Status& status) {
  std::fprintf(stderr, "bench_speculation: %s\n", status.message().c_str());
  return 1;
}

int run(const Options& options) {
  const auto file = GgufFile::open(options.model);
  if (!file.ok()) return fail(file.status());
  const auto tokenizer = Tokenizer::from_gguf(**file);
  if (!tokenizer.ok()) return fail(tokenizer.status());
  CpuBackendOptions backend_options;
  backend_options.model_path = options.model;
  backend_options.threads = options.threads;
  backend_options.context_max = 1024;
  const auto backend = CpuBackend::create(backend_options, nullptr);
  if (!backend.ok()) return fail(backend.status());
  std::printf("%s, %s; %zu tasks, at most %u tokens and %u drafts\n\n", options.model.c_str(),
              (*backend)->info().name.c_str(), editing_tasks().size(), options.max_tokens, options.max_draft_tokens);
  std::printf("%5s %12s %12s %6s %9s %9s %11s %9s %7s\n", "batch", "off tok/s", "on tok/s", "gain", "off ms", "on ms",
              "drafts/step", "accepted", "output");
  const Result<Calibration> calibration = calibrate(**backend, steady_clock());
  if (!calibration.ok()) return fail(calibration.status());
  Bench bench(options, **backend, **tokenizer, calibration->costs);
  for (const uint32_t batch : options.batches) {
    const Measured off = bench.run(batch, false);
    const Measured on = bench.run(batch, true);
    std::printf("%5u %12.1f %12.1f %5.2fx %9.2f %9.2f %11.2f %8.0f%% %7s\n", batch, off.tokens_per_second(),
                on.tokens_per_second(), on.tokens_per_second() / off.tokens_per_second(), off.step_ms(), on.step_ms(),
                static_cast<double>(on.drafts) / static_cast<double>(on.steps),
                on.drafts == 0 ? 0.0 : 100.0 * static_cast<double>(on.accepted) / static_cast<double>(on.drafts),
                on.outputs == off.outputs ? "same" : "DIFFERS");
  }
  return 0;
}

}  // namespace
}  // namespace twostroke

int main(int argc, char** argv) {
  twostroke::Options options;
  CLI::App app("Decode tokens per second with and without speculation, on editing tasks");
  app.add_option("--model", options.model, "GGUF file of a model with the ChatML template")->required();
  app.add_option("--threads", options.threads, "0: as many as this process may run on")->check(CLI::Range(0, 512));
  app.add_option("--batch", options.batches, "requests at a time; any number of values")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--max-tokens", options.max_tokens, "of an answer")->check(CLI::Range(1, 512))->capture_default_str();
  app.add_option("--max-draft-tokens", options.max_draft_tokens, "of a sequence in a step")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "how often all tasks are run")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--temperature", options.temperature, "0: greedy")->check(CLI::Range(0, 2))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return twostroke::run(options);
}
