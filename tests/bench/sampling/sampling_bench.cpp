// What choosing a token costs, by settings and size of the vocabulary. Logits are like a language model's: a broad bell
// with a few tokens far above it.
//
//   cmake --build --preset release --target sampling_bench && build/release/sampling_bench
//
// "passes" is the time as a multiple of that of find_greatest(), one look at every logit.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include "backend/sampler.h"
#include "backend/sampler_math.h"

namespace twostroke {
namespace {

std::vector<float> some_logits(size_t vocab) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> bell(0, 2.5f);
  std::vector<float> logits(vocab);
  for (float& l : logits) l = bell(random);
  for (int i = 0; i < 30; ++i) logits[random() % vocab] = 10 + static_cast<float>(i) * 0.2f;
  return logits;
}

double seconds_of_a_pass(const std::vector<float>& logits) {
  double best = 1;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(find_greatest(logits));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

void sample(benchmark::State& state, const SamplingParams& params, bool masked) {
  const auto vocab = static_cast<size_t>(state.range(0));
  const std::vector<float> logits = some_logits(vocab);
  Sampler sampler(static_cast<int32_t>(vocab));
  SamplingParams sampling = params;
  std::vector<TokenId> history;
  for (size_t i = 0; i < 500; ++i) history.push_back(static_cast<TokenId>(i * 97 % vocab));
  const std::vector<uint32_t> mask((vocab + 31) / 32, 0xaaaaaaaau);
  Row row;
  row.samples = true;
  row.sampling = &sampling;
  row.history = history;
  row.prompt_count = 400;
  if (masked) row.mask = mask;
  RowResult result;
  for (auto _ : state) {
    ++sampling.seed;
    sampler.sample(row, {}, logits, result);
    benchmark::DoNotOptimize(result.token);
  }
  state.counters["passes"] = benchmark::Counter(static_cast<double>(state.iterations()) * seconds_of_a_pass(logits),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("vocab")->Unit(benchmark::kMicrosecond)->Arg(49152)->Arg(128256);
}

BENCHMARK_CAPTURE(sample, greedy, SamplingParams{.temperature = 0}, false)->Apply(sizes);
BENCHMARK_CAPTURE(sample, greedy_masked, SamplingParams{.temperature = 0}, true)->Apply(sizes);
BENCHMARK_CAPTURE(sample, greedy_logprobs5, (SamplingParams{.temperature = 0, .logprobs = 5}), false)->Apply(sizes);
BENCHMARK_CAPTURE(sample, temperature, SamplingParams{.temperature = 0.8f}, false)->Apply(sizes);
BENCHMARK_CAPTURE(sample, min_p, (SamplingParams{.temperature = 0.8f, .min_p = 0.05f}), false)->Apply(sizes);
BENCHMARK_CAPTURE(sample, top_k, (SamplingParams{.temperature = 0.8f, .top_k = 40}), false)->Apply(sizes);
BENCHMARK_CAPTURE(sample, top_k_top_p, (SamplingParams{.temperature = 0.8f, .top_p = 0.95f, .top_k = 40}), false)
    ->Apply(sizes);
BENCHMARK_CAPTURE(sample, top_p, (SamplingParams{.temperature = 0.8f, .top_p = 0.95f}), false)->Apply(sizes);
BENCHMARK_CAPTURE(sample, penalties, (SamplingParams{.temperature = 0.8f, .repetition_penalty = 1.1f}), false)
    ->Apply(sizes);

}  // namespace
}  // namespace twostroke
