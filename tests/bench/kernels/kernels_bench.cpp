// Speed of the CPU operators on the shapes of SmolLM2-135M (D 576, F 1536, 9 heads, 3 key/value heads, vocabulary
// 49152). Arithmetic is reported as multiply-accumulates per second, memory as bytes of weights or cache read per
// second.
//
//   cmake --build --preset release --target kernels_bench && build/release/kernels_bench
//   build/release/kernels_bench --benchmark_filter='matmul.*rows:1/'

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_operators.h"
#include "kernels/cpu/machine_peaks.h"

namespace twostroke {
namespace {

// --isa of the command line; the best one by default.
Isa& isa() {
  static Isa chosen = best_isa();
  return chosen;
}

DeviceMemory allocate(Device& device, size_t bytes) {
  Result<DeviceMemory> memory = device.allocate(bytes);
  CHECK(memory.ok(), memory.status().message());
  return std::move(memory).value();
}

// Contents do not matter to the speed, but must be ordinary numbers.
struct Floats {
  Floats(Device& device, int64_t rows, int64_t cols, float value = 0.5f)
      : memory(allocate(device, static_cast<size_t>(rows * cols) * sizeof(float))),
        tensor(Tensor::contiguous(memory.address(), DType::kF32, rows, cols)) {
    const std::vector<float> values(static_cast<size_t>(rows * cols), value);
    device.upload(tensor.data, values.data(), values.size() * sizeof(float));
  }
  DeviceMemory memory;
  Tensor tensor;
};

struct Integers {
  Integers(Device& device, const std::vector<int32_t>& values, int64_t rows, int64_t cols)
      : memory(allocate(device, values.size() * sizeof(int32_t))),
        tensor(Tensor::contiguous(memory.address(), DType::kI32, rows, cols)) {
    device.upload(tensor.data, values.data(), values.size() * sizeof(int32_t));
  }
  DeviceMemory memory;
  Tensor tensor;
};

// As files have them.
constexpr WeightShape kQ8Shape = {.layout = WeightLayout::kQ8, .group = 32};                          // Q8_0
constexpr WeightShape kQ4Shape = {.layout = WeightLayout::kQ4, .group = 32};                          // Q4_0
constexpr WeightShape kQ4MinShape = {.layout = WeightLayout::kQ4, .group = 32, .has_min = true};      // Q4_1
constexpr WeightShape kQ4KShape = {WeightLayout::kQ4, 0, 0, 32, true, true};                          // Q4_K
constexpr WeightShape kQ6KShape = {.layout = WeightLayout::kQ6, .group = 16, .scale_factors = true};  // Q6_K
constexpr WeightShape kF16Shape = {.layout = WeightLayout::kF16};
constexpr WeightShape kF32Shape = {.layout = WeightLayout::kF32};

struct PackedWeight {
  PackedWeight(Operators& operators, const WeightShape& shape)
      : memory(allocate(operators.device(), operators.weight_bytes(shape))), weight{shape, memory.address()} {
    const auto k = static_cast<size_t>(shape.k);
    const std::vector<float> f32(shape.layout == WeightLayout::kF32 ? k : 0, 0.5f);
    const bool half = shape.layout == WeightLayout::kF16 || shape.layout == WeightLayout::kBF16;
    const std::vector<uint16_t> bits16(half ? k : 0, 0x3800);
    const bool bytes = shape.layout == WeightLayout::kQ8 || shape.layout == WeightLayout::kQ6;
    const std::vector<int8_t> q8(bytes ? k : 0, 5);
    const std::vector<uint8_t> q4(shape.layout == WeightLayout::kQ4 ? k / 2 : 0, 0x35);
    const size_t groups = shape.group > 0 ? k / static_cast<size_t>(shape.group) : 0;
    const std::vector<float> scales(shape.scale_factors ? k / kSuperBlock : groups, 0.125f);
    const std::vector<float> mins(shape.has_min ? scales.size() : 0, -0.25f);
    const std::vector<int8_t> factors(shape.scale_factors ? groups : 0, 3);
    const std::vector<int8_t> min_factors(shape.has_min ? factors.size() : 0, 3);
    for (int64_t row = 0; row < shape.n; ++row)
      operators.store_weight(weight, {row, 1, f32, bits16, q8, q4, scales, mins, factors, min_factors});
  }
  DeviceMemory memory;
  Weight weight;
};

// Rows of plain numbers and, for coded weights, the same quantised.
struct Inputs {
  Inputs(Operators& operators, const WeightShape& shape, int64_t rows, ActivationType type)
      : floats(operators.device(), rows, shape.k),
        memory(allocate(operators.device(), static_cast<size_t>(rows) * operators.int8_row_bytes(shape.k))),
        activations(floats.tensor) {
    if (type == ActivationType::kF32 || shape.group == 0) return;
    activations.int8 = {memory.address(), rows, shape.k, operators.int8_row_bytes(shape.k)};
    operators.quantise(activations);
  }
  Floats floats;
  DeviceMemory memory;
  Activations activations;
};

void matmul(benchmark::State& state, WeightShape shape, int64_t n, int64_t k,
            ActivationType type = ActivationType::kInt8) {
  shape.n = n;
  shape.k = k;
  const int64_t rows = state.range(0);
  CpuDevice device(static_cast<int>(state.range(1)));
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, isa());
  // As many copies as a model has layers, so that weights come from memory and not from a cache.
  const size_t copies = std::clamp<size_t>((size_t{128} << 20) / operators->weight_bytes(shape), 1, 64);
  std::vector<PackedWeight> weights;
  for (size_t i = 0; i < copies; ++i) weights.emplace_back(*operators, shape);
  const Inputs in(*operators, shape, rows, type);
  const Floats out(device, rows, n);
  size_t next = 0;
  for (auto _ : state) {
    operators->matmul(out.tensor, in.activations, weights[next].weight, false);
    next = (next + 1) % copies;
  }
  const auto calls = static_cast<double>(state.iterations());
  state.counters["MAC/s"] = benchmark::Counter(calls * static_cast<double>(rows * n * k), benchmark::Counter::kIsRate);
  state.counters["B/s"] =
      benchmark::Counter(calls * static_cast<double>(operators->weight_bytes(shape)), benchmark::Counter::kIsRate);
}

void matmul_args(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  const int64_t all = allowed_processors();
  for (int64_t rows : {1, 4, 16, 64, 512}) bench->Args({rows, 1});
  if (all > 1) {
    for (int64_t rows : {1, 4, 16, 64, 512}) bench->Args({rows, all});
  }
}

BENCHMARK_CAPTURE(matmul, q4_up, kQ4Shape, 1536, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q4_down, kQ4Shape, 576, 1536)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q4_key, kQ4Shape, 192, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q4_up_f32, kQ4Shape, 1536, 576, ActivationType::kF32)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q4_min_up, kQ4MinShape, 1536, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q4k_down, kQ4KShape, 576, 1536)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q6k_down, kQ6KShape, 576, 1536)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q8_up, kQ8Shape, 1536, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, f16_up, kF16Shape, 1536, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, f32_up, kF32Shape, 1536, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q8_vocabulary, kQ8Shape, 49152, 576)->Apply(matmul_args);
BENCHMARK_CAPTURE(matmul, q6k_vocabulary, kQ6KShape, 49152, 768)->Apply(matmul_args);

// One row of `tokens` tokens that ends at position `context`.
void attention(benchmark::State& state, DType dtype) {
  const auto tokens = static_cast<int32_t>(state.range(0));
  const auto context = static_cast<int32_t>(state.range(1));
  CpuDevice device(static_cast<int>(state.range(2)));
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, isa());
  KvCache cache = {.data = {},
                   .dtype = dtype,
                   .layers = 1,
                   .blocks = (context + 15) / 16,
                   .kv_heads = 3,
                   .block_size = 16,
                   .head_size = 64};
  const DeviceMemory memory = allocate(device, cache.bytes());
  cache.data = memory.address();
  const std::vector<uint16_t> ones(cache.bytes() / sizeof(uint16_t), 0x3c00);  // or some ordinary numbers
  device.upload(cache.data, ones.data(), cache.bytes());
  const std::vector<RowSegment> segments = {{.token_count = tokens, .position = context - tokens}};
  std::vector<int32_t> table(static_cast<size_t>(cache.blocks));
  std::iota(table.begin(), table.end(), 0);
  std::vector<int32_t> positions(static_cast<size_t>(tokens));
  std::iota(positions.begin(), positions.end(), context - tokens);
  const Integers fields(device, {0, tokens, context - tokens, 0}, 1, 4);
  const Integers tables(device, table, 1, cache.blocks);
  const Integers position(device, positions, 1, tokens);
  const Integers row(device, std::vector<int32_t>(static_cast<size_t>(tokens), 0), 1, tokens);
  const StepRows rows = {segments, fields.tensor, tables.tensor, position.tensor, row.tensor};
  const Floats q(device, tokens, 576);
  const Floats out(device, tokens, 576);
  for (auto _ : state) operators->attention(out.tensor, q.tensor, cache, 0, rows);
  const auto calls = static_cast<double>(state.iterations());
  const double pairs = double{9} * tokens * (context - (tokens - 1) / 2.0);  // of query and position
  state.counters["MAC/s"] = benchmark::Counter(calls * pairs * 2 * 64, benchmark::Counter::kIsRate);
  state.counters["B/s"] = benchmark::Counter(calls * static_cast<double>(cache.bytes()), benchmark::Counter::kIsRate);
}
void attention_args(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "context", "threads"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const auto& [tokens, context] : {std::pair{1, 512}, {1, 8192}, {512, 512}}) bench->Args({tokens, context, 1});
  for (const auto& [tokens, context] : {std::pair{1, 8192}, {8, 400}, {8, 1024}, {16, 1024}, {512, 512}, {512, 8192}}) {
    bench->Args({tokens, context, 2});
  }
}
BENCHMARK_CAPTURE(attention, f32, DType::kF32)->Apply(attention_args);
BENCHMARK_CAPTURE(attention, f16, DType::kF16)->Apply(attention_args);
BENCHMARK_CAPTURE(attention, q8, DType::kI8)->Apply(attention_args);

void elementwise(benchmark::State& state) {
  CpuDevice device(static_cast<int>(state.range(1)));
  const std::unique_ptr<Operators> operators = make_cpu_operators(device, isa());
  const Floats x(device, state.range(0), 576);
  const Floats gate(device, state.range(0), 1536);
  const Floats scale(device, 1, 576);
  const Floats out(device, state.range(0), 1536);
  for (auto _ : state) {
    operators->rms_norm(x.tensor, x.tensor, scale.tensor, 1e-5f);
    operators->silu_gate(out.tensor, gate.tensor, gate.tensor);
  }
  state.counters["rows/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate);
}
BENCHMARK(elementwise)
    ->ArgNames({"rows", "threads"})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond)
    ->Args({1, 1})
    ->Args({512, 1})
    ->Args({512, 2});

// What handing a job to the workers costs: two tasks that do nothing.
void fork_and_join(benchmark::State& state) {
  WorkerPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.run(state.range(0), [](int64_t, int) {});
}
BENCHMARK(fork_and_join)->ArgName("threads")->UseRealTime()->Arg(2);

}  // namespace

// Takes --isa=NAME out of the arguments. Whether it was right.
bool choose_isa(int& count, char** arguments) {
  const std::string flag = "--isa=";
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (!argument.starts_with(flag)) continue;
    std::copy(arguments + i + 1, arguments + count, arguments + i);
    --count;
    for (const Isa known : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
      if (argument != flag + isa_name(known) || !isa_supported(known)) continue;
      isa() = known;
      return true;
    }
    return false;
  }
  return true;
}

// What the machine does at most, among the facts that the report begins with.
void show_peaks() {
  benchmark::AddCustomContext("operators", isa_name(isa()));
  for (const int threads : {1, allowed_processors()}) {
    CpuDevice device(threads);
    const MachinePeaks floats = measure_peaks(device, isa(), ActivationType::kF32, peak_buffer_bytes());
    const MachinePeaks bytes = measure_peaks(device, isa(), ActivationType::kInt8, size_t{1} << 20);
    char text[120];
    std::snprintf(text, sizeof(text), "%.1f G/s of floats, %.1f G/s of bytes; %.1f GB/s of reads from memory",
                  floats.flops / 2e9, bytes.flops / 2e9, floats.bytes_per_second / 1e9);
    benchmark::AddCustomContext("peak multiply-adds, " + std::to_string(threads) + " thread(s)", text);
  }
}

}  // namespace twostroke

int main(int count, char** arguments) {
  if (!twostroke::choose_isa(count, arguments)) {
    std::fprintf(stderr, "kernels_bench: --isa is scalar, avx2, avx512 or amx, as this processor has it\n");
    return 1;
  }
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  twostroke::show_peaks();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
