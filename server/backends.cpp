#include "server/backends.h"

#include <spdlog/spdlog.h>
#include <sys/sysinfo.h>

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/plugin_backend.h"
#include "backend/sim/sim_backend.h"

namespace twostroke {
namespace {

// Without a setting, KV blocks may take a quarter of the machine's memory; it is only touched as it is used.
uint64_t kv_bytes(const ServeConfig& config) {
  if (config.kv_memory_mb != 0) return config.kv_memory_mb << 20;
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return uint64_t{1} << 30;
  return uint64_t{machine.totalram} * machine.mem_unit / 4;
}

Isa isa(const ServeConfig& config) {
  if (config.isa == "scalar") return Isa::kScalar;
  if (config.isa == "avx2") return Isa::kAvx2;
  return best_isa();
}

// Logs each tenth of the way.
LoadProgress log_progress() {
  return [tenths = 0](double fraction) mutable {
    const int now = static_cast<int>(fraction * 10);
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
  options.kv_dtype = config.kv_dtype == "f32" ? DType::kF32 : DType::kF16;
  options.context_max = static_cast<int32_t>(config.context_max);
  options.step_tokens_max = static_cast<int32_t>(config.max_step_tokens);
  options.step_rows_max = static_cast<int32_t>(std::min(config.max_running, config.max_step_tokens));
  options.isa = isa(config);
  Result<std::unique_ptr<CpuBackend>> backend = CpuBackend::create(options, log_progress());
  if (!backend.ok()) return backend.status();
  return std::unique_ptr<Backend>(std::move(*backend));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const ServeConfig& config, const GgufFile& file, int32_t vocab_size) {
  if (config.backend == "cpu") return make_cpu(config);
  return unsupported("later");
}

}  // namespace twostroke
