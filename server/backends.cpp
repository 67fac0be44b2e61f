#include "server/backends.h"

#include <spdlog/spdlog.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/plugin_backend.h"
#include "backend/sim/sim_backend.h"
#include "kernels/cpu/container_limits.h"

namespace twostroke {
namespace {

static_assert(int{kComputeThreadsMax} == WorkerPool::kThreadsMax);

// Without a setting, KV blocks may take a quarter of the machine's memory, or of what a container leaves of it; it is
// only touched as it is used.
uint64_t kv_bytes(const ServeConfig& config) {
  if (config.kv_memory_mb != 0) return config.kv_memory_mb << 20;
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return uint64_t{1} << 30;
  return std::min(uint64_t{machine.totalram} * machine.mem_unit, container_limits().memory_bytes) / 4;
}

Isa isa(const ServeConfig& config) {
  if (config.isa == "scalar") return Isa::kScalar;
  if (config.isa == "avx2") return Isa::kAvx2;
  if (config.isa == "avx512") return Isa::kAvx512;
  if (config.isa == "amx") return Isa::kAmx;
  return best_isa();
}

// Logs each tenth of the way.
LoadProgress log_progress() {
  return [tenths = uint64_t{0}](uint64_t bytes_done, uint64_t bytes_total) mutable {
    const uint64_t now = bytes_total == 0 ? 10 : bytes_done * 10 / bytes_total;
    if (now > tenths) spdlog::info("loading weights: {} %", now * 10);
    tenths = std::max(tenths, now);
  };
}

Result<std::unique_ptr<Backend>> make_cpu(const ServeConfig& config) {
  CpuBackendOptions options;
  options.model_path = config.model;
  options.threads = static_cast<int32_t>(config.threads);
  options.kv_bytes = kv_bytes(config);
  options.block_size = static_cast<int32_t>(config.block_size);
  options.kv_dtype = config.kv_dtype == "f32" ? DType::kF32 : config.kv_dtype == "q8" ? DType::kI8 : DType::kF16;
  options.activations = config.activations == "f32" ? ActivationType::kF32 : ActivationType::kInt8;
  options.context_max = static_cast<int32_t>(config.context_max);
  options.step_tokens_max = static_cast<int32_t>(config.max_step_tokens);
  options.step_rows_max = static_cast<int32_t>(std::min(config.max_running, config.max_step_tokens));
  if (config.speculation == "off") options.step_drafts_max = 0;
  options.isa = isa(config);
  options.measure_peaks = true;
  Result<std::unique_ptr<CpuBackend>> backend = CpuBackend::create(options, log_progress());
  if (!backend.ok()) return backend.status();
  return std::unique_ptr<Backend>(std::move(*backend));
}

// The model's context from any architecture's key; a file of a vocabulary alone has none.
constexpr uint64_t kSimContext = 8192;
constexpr int32_t kSimEmbedding = 64;

Result<std::unique_ptr<Backend>> make_sim(const ServeConfig& config, const GgufFile& file, int32_t vocab_size) {
  uint64_t context = config.context_max;
  if (context == 0) {
    const Result<std::string_view> architecture = file.get_string_or("general.architecture", "");
    if (!architecture.ok()) return architecture.status();
    const Result<uint64_t> length = file.get_u64_or(std::string(*architecture) + ".context_length", kSimContext);
    if (!length.ok()) return length.status();
    context = std::clamp<uint64_t>(*length, 1, kSimContext);
  }
  const uint64_t blocks = config.max_running * ((context + config.block_size - 1) / config.block_size);
  if (blocks * config.block_size > static_cast<uint64_t>(kSimPositionsMax)) {
    return invalid_argument("--max-running times --context-max is more than the sim backend simulates: lower one");
  }
  SimOptions options;
  options.kv_check = KvCheck::kOff;
  options.info = {.name = "sim",
                  .vocab_size = vocab_size,
                  .context_max = static_cast<int32_t>(context),
                  .block_size = static_cast<int32_t>(config.block_size),
                  .block_count = static_cast<int32_t>(blocks),
                  .step_tokens_max = static_cast<int32_t>(config.max_step_tokens),
                  .step_rows_max = static_cast<int32_t>(std::min(config.max_running, config.max_step_tokens)),
                  .embedding_size = kSimEmbedding,
                  .scores_targets = true,
                  .late_masks = true,
                  .step_drafts_max = 64};
  Result<std::unique_ptr<SimBackend>> backend = SimBackend::create(std::move(options));
  if (!backend.ok()) return backend.status();
  return std::unique_ptr<Backend>(std::move(*backend));
}

Result<std::unique_ptr<Backend>> make_plugin(const ServeConfig& config, int32_t vocab_size) {
  PluginOptions options;
  options.model_path = config.model;
  options.plugin_args = config.plugin_args;
  options.kv_bytes = config.kv_memory_mb << 20;
  options.block_size = config.block_size;
  options.context_max = config.context_max;
  options.step_tokens_max = config.max_step_tokens;
  options.step_rows_max = std::min(config.max_running, config.max_step_tokens);
  Result<std::unique_ptr<Backend>> backend = load_plugin(config.backend, options);
  if (backend.ok() && (*backend)->info().vocab_size > vocab_size) {
    return invalid_argument("the plug-in '" + config.backend + "' has a vocabulary of " +
                            std::to_string((*backend)->info().vocab_size) + " tokens, more than the " +
                            std::to_string(vocab_size) + " of the model file: do they belong together?");
  }
  return backend;
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const ServeConfig& config, const GgufFile& file, int32_t vocab_size) {
  if (config.backend == "cpu") return make_cpu(config);
  if (config.backend == "sim") return make_sim(config, file, vocab_size);
  return make_plugin(config, vocab_size);
}

}  // namespace twostroke
