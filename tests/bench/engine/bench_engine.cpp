// bench_engine: how many tokens per second the CPU backend computes, each phase by itself. No scheduler, no server.
//
//   build/release/bench_engine --model FILE
//
// Prefill: --prompts prompts at once, in steps of at most --chunk tokens in all. Decode: --batch sequences, each with
// --context tokens in the cache at the start, one token each per step, greedy. Mixed: one step of a chunk of --chunk
// tokens, alone and with --mixed decodes beside it; their ratio is what decodes cost that travel with a chunk. Every
// figure is the median of --repeats runs; the two of the ratio take turns.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace twostroke {
namespace {

struct Options {
  std::string model;
  int threads = 0;
  std::string isa = "auto";
  std::string activations = "int8";
  int prompt_tokens = 512;
  int chunk = 512;
  std::vector<int> prompts = {1};
  std::vector<int> batches = {1, 4, 16, 32};
  int mixed = 8;
  int context = 128;
  int steps = 32;
  int repeats = 3;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const Options& options, Backend& backend) : options_(options), backend_(backend) { greedy_.temperature = 0; }

  // Seconds for so many prompts.
  double prefill(int prompts) {
    start(static_cast<size_t>(prompts));
    const double begin = seconds_now();
    advance(static_cast<uint32_t>(options_.prompt_tokens));
    return seconds_now() - begin;
  }

  // Seconds for `steps` decode steps of `batch` sequences.
  double decode(int batch) {
    start(static_cast<size_t>(batch));
    advance(static_cast<uint32_t>(options_.context));
    const double begin = seconds_now();
    for (int i = 0; i < options_.steps; ++i) step(1);
    return seconds_now() - begin;
  }

  // Seconds for one step of a new prompt's first `chunk` tokens, with a token each of `decodes` sequences beside it.
  double mixed(int decodes) {
    start(static_cast<size_t>(decodes));
    advance(static_cast<uint32_t>(options_.context));
    std::vector<uint32_t> counts(sequences_.size(), 1);
    add_sequence();
    counts.push_back(static_cast<uint32_t>(options_.chunk));
    const double begin = seconds_now();
    step(counts);
    return seconds_now() - begin;
  }

 private:
  struct Sequence {
    std::vector<TokenId> history;
    uint32_t computed = 0;
  };

  void start(size_t count) {
    sequences_.clear();
    random_.seed(1);
    for (size_t i = 0; i < count; ++i) add_sequence();
  }

  void add_sequence() {
    Sequence sequence;
    for (int i = 0; i < std::max({options_.prompt_tokens, options_.context, options_.chunk}); ++i) {
      sequence.history.push_back(static_cast<TokenId>(random_() % static_cast<uint32_t>(backend_.info().vocab_size)));
    }
    sequences_.push_back(std::move(sequence));
  }

  // Computes `tokens` more tokens of every sequence, in chunks that a step can carry.
  void advance(uint32_t tokens) {
    if (sequences_.empty()) return;
    const uint32_t most = std::max(
        1u, std::min(static_cast<uint32_t>(options_.chunk), static_cast<uint32_t>(backend_.info().step_tokens_max)) /
                static_cast<uint32_t>(sequences_.size()));
    for (uint32_t left = tokens; left > 0;) {
      const uint32_t count = std::min(most, left);
      step(count);
      left -= count;
    }
  }

  void step(uint32_t count) { step(std::vector<uint32_t>(sequences_.size(), count)); }

  // counts[i] more tokens of sequence i.
  void step(const std::vector<uint32_t>& counts) {
    const uint32_t block_size = static_cast<uint32_t>(backend_.info().block_size);
    const uint32_t blocks = (static_cast<uint32_t>(backend_.info().context_max) + block_size - 1) / block_size;
    plan_.clear();
    for (size_t i = 0; i < sequences_.size(); ++i) {
      std::vector<TokenId>& history = sequences_[i].history;
      const uint32_t begin = sequences_[i].computed;
      const uint32_t end = begin + counts[i];
      history.resize(std::max<size_t>(history.size(), end));
      Row row;
      row.sequence = i;
      row.token_begin = static_cast<uint32_t>(plan_.tokens.size());
      row.token_count = counts[i];
      row.position = begin;
      row.block_begin = static_cast<uint32_t>(plan_.blocks.size());
      row.block_count = (end + block_size - 1) / block_size;
      row.samples = true;
      row.sampling = &greedy_;
      row.history = std::span(history).first(end);
      row.prompt_count = end;
      plan_.tokens.insert(plan_.tokens.end(), history.begin() + begin, history.begin() + end);
      for (uint32_t b = 0; b < row.block_count; ++b) plan_.blocks.push_back(static_cast<BlockId>(i) * blocks + b);
      plan_.rows.push_back(row);
      sequences_[i].computed = end;
    }
    Status status = backend_.submit(plan_);
    if (status.ok()) status = backend_.wait(result_);
    CHECK(status.ok(), status.message());
  }

  const Options& options_;
  Backend& backend_;
  SamplingParams greedy_;
  std::mt19937 random_;
  std::vector<Sequence> sequences_;
  StepPlan plan_;
  StepResult result_;
};

void print_row(const BackendInfo& info, const std::string& phase, int batch, int tokens, int steps, double seconds) {
  std::printf("%-8s %5d %10.1f %10.2f %10.1f %10.2f\n", phase.c_str(), batch, tokens / seconds, 1e3 * seconds / steps,
              1e-9 * info.flops_per_token * tokens / seconds, 1e-9 * info.weight_bytes * steps / seconds);
}

int run(const Options& options) {
  CpuBackendOptions backend_options;
  backend_options.model_path = options.model;
  backend_options.threads = options.threads;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (options.isa == isa_name(isa)) backend_options.isa = isa;
  }
  backend_options.activations = options.activations == "f32" ? ActivationType::kF32 : ActivationType::kInt8;
  const int batch_max = std::max(*std::max_element(options.batches.begin(), options.batches.end()),
                                 *std::max_element(options.prompts.begin(), options.prompts.end()));
  const int rows_max = std::max(batch_max, options.mixed + 1);
  backend_options.context_max = std::max({options.prompt_tokens, options.context, options.chunk}) + options.steps;
  backend_options.block_count =
      (backend_options.context_max + backend_options.block_size - 1) / backend_options.block_size * rows_max;
  backend_options.step_rows_max = rows_max;
  backend_options.step_tokens_max = std::max(options.chunk + options.mixed, batch_max);
  const double begin = seconds_now();
  const auto backend = CpuBackend::create(backend_options, nullptr);
  if (!backend.ok()) {
    std::fprintf(stderr, "bench_engine: %s\n", backend.status().message().c_str());
    return 1;
  }
  const BackendInfo& info = (*backend)->info();
  std::printf("%s, %s; loaded in %.2f s; %.1f MB of weights, %.3f GFLOP and %.1f KB of KV per token\n",
              options.model.c_str(), info.name.c_str(), seconds_now() - begin, 1e-6 * info.weight_bytes,
              1e-9 * info.flops_per_token, 1e-3 * info.kv_bytes_per_token);
  std::printf("prefill: prompts of %d tokens, steps of %d; decode: %d steps from %d tokens of context\n\n",
              options.prompt_tokens, options.chunk, options.steps, options.context);
  std::printf("%-8s %5s %10s %10s %10s %10s\n", "phase", "batch", "tokens/s", "ms/step", "GFLOP/s", "GB/s");

  Bench bench(options, **backend);
  std::vector<double> seconds;
  for (const int prompts : options.prompts) {
    seconds.clear();
    for (int i = 0; i < options.repeats; ++i) seconds.push_back(bench.prefill(prompts));
    const int of_each = std::max(1, std::min(options.chunk, info.step_tokens_max / prompts));
    const int steps = (options.prompt_tokens + of_each - 1) / of_each;
    print_row(info, "prefill", prompts, options.prompt_tokens * prompts, steps, median(seconds));
  }
  for (const int batch : options.batches) {
    seconds.clear();
    for (int i = 0; i < options.repeats; ++i) seconds.push_back(bench.decode(batch));
    print_row(info, "decode", batch, options.steps * batch, options.steps, median(seconds));
  }
  if (options.mixed > 0) {
    std::vector<double> alone;
    seconds.clear();
    for (int i = 0; i < options.repeats; ++i) {
      alone.push_back(bench.mixed(0));
      seconds.push_back(bench.mixed(options.mixed));
    }
    print_row(info, "chunk", 0, options.chunk, 1, median(alone));
    print_row(info, "mixed", options.mixed, options.chunk + options.mixed, 1, median(seconds));
    std::printf("\nthe mixed step takes %.3f times as long as the chunk alone\n", median(seconds) / median(alone));
  }
  return 0;
}

}  // namespace
}  // namespace twostroke

int main(int argc, char** argv) {
  twostroke::Options options;
  CLI::App app("Tokens per second of the CPU backend, each phase by itself");
  const CLI::Range sizes(1, 1 << 17);
  app.add_option("--model", options.model, "GGUF file")->required();
  app.add_option("--threads", options.threads, "0: as many as this process may run on")->check(CLI::Range(0, 512));
  app.add_option("--isa", options.isa, "kernels")
      ->check(CLI::IsMember({"auto", "avx2", "avx512", "amx"}))
      ->capture_default_str();
  app.add_option("--activations", options.activations, "of products with coded weights")
      ->check(CLI::IsMember({"int8", "f32"}))
      ->capture_default_str();
  app.add_option("--prompt-tokens", options.prompt_tokens, "tokens of the prefill")
      ->check(sizes)
      ->capture_default_str();
  app.add_option("--chunk", options.chunk, "tokens of a prefill step at most")->check(sizes)->capture_default_str();
  app.add_option("--prompts", options.prompts, "prompts that are computed together; any number of values")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--batch", options.batches, "sequences that decode together; any number of values")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--mixed", options.mixed, "decodes beside a chunk; 0: no mixed steps")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--context", options.context, "tokens in the cache when decoding starts")
      ->check(sizes)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "decode steps of a run")->check(sizes)->capture_default_str();
  app.add_option("--repeats", options.repeats, "runs, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return twostroke::run(options);
}
