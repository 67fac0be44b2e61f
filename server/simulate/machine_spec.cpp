#include "server/simulate/machine_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace twostroke::simulate {
namespace {

std::string gigabytes(double bytes) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f GB", bytes < 1e10 ? 2 : 1, bytes / 1e9);
  return text;
}

// What to do about a model that is too big.
std::string advice(const Group& group, double bytes, double fraction) {
  const double needed = std::ceil(bytes / (group.hardware.memory_bytes * fraction));
  if (group.hardware.link_bytes_per_second == 0 || needed > kTensorParallelMax) {
    return "use weights of fewer bits (--weights), or hardware with more memory";
  }
  const auto degree = std::bit_ceil(static_cast<uint32_t>(needed));
  return "use at least " + std::to_string(degree) + " devices to a replica (" + std::to_string(degree) + "x" +
         group.hardware.name + ":tp" + std::to_string(degree) + "), or weights of fewer bits (--weights)";
}

}  // namespace

Result<MachineSpec> make_machine(const Group& group, const Model& model, const MachineOptions& options,
                                 const SchedulerLimits& limits, uint32_t fleet_replicas) {
  const Hardware& hardware = group.hardware;
  const double devices = group.tensor_parallel;
  MachineSpec spec;
  spec.role = group.role;
  spec.hardware = (devices > 1 ? std::to_string(group.tensor_parallel) + " x " : "") + hardware.name;
  spec.price_per_hour = devices * hardware.price_per_hour.value_or(0);

  if (model.shape.heads % static_cast<int32_t>(group.tensor_parallel) != 0) {
    return invalid_argument(model.shape.name + " has " + std::to_string(model.shape.heads) +
                            " heads, which do not divide among " + std::to_string(group.tensor_parallel) +
                            " devices; choose another tensor parallel degree");
  }
  const double efficiency = std::pow(kTensorParallelEfficiency, std::log2(devices));
  spec.machine.name = spec.hardware;
  spec.machine.peak_flops = devices * hardware.peak_flops;
  spec.machine.peak_bytes_per_second = devices * hardware.peak_bytes_per_second;
  spec.machine.compute_efficiency = hardware.compute_efficiency * efficiency;
  spec.machine.memory_efficiency = hardware.memory_efficiency * efficiency;
  spec.machine.step_overhead_ns = static_cast<TimeNs>(hardware.step_overhead_us * 1e3);
  if (devices > 1) {
    const double exchanges = 2.0 * model.shape.layers;
    spec.link_seconds_per_step = exchanges * hardware.link_latency_us * 1e-6;
    spec.link_seconds_per_token =
        exchanges * 2 * (devices - 1) / devices * model.shape.embedding_size * 2 / hardware.link_bytes_per_second;
  }

  const double copies = std::max(1.0, devices / model.shape.kv_heads);
  const double kv_bytes = model.kv_bytes_per_token * copies;
  const double usable = devices * hardware.memory_bytes * options.memory_fraction;
  const std::string what = model.shape.name + " (weights " + model.weights + ")";
  const std::string where = spec.hardware + " has " + gigabytes(devices * hardware.memory_bytes) + ", of which " +
                            gigabytes(usable) + " are used (--memory-fraction)";
  if (model.held_bytes >= usable) {
    return invalid_argument(what + " takes " + gigabytes(model.held_bytes) + ", but " + where + ": " +
                            advice(group, model.held_bytes, options.memory_fraction));
  }
  double kv_memory = usable - model.held_bytes;
  if (options.kv_memory_mb > 0) {
    const double wanted = static_cast<double>(options.kv_memory_mb) * 1048576.0;
    if (wanted > kv_memory) {
      return invalid_argument("--kv-memory-mb asks for " + gigabytes(wanted) + ", but " + where + ", and " + what +
                              " leaves " + gigabytes(kv_memory));
    }
    kv_memory = wanted;
  }
  const double block_bytes = kv_bytes * options.block_size;
  double blocks = std::floor(kv_memory / block_bytes);
  const double blocks_max =
      std::floor(static_cast<double>(kKvPositionsMax) / (static_cast<double>(fleet_replicas) * options.block_size));
  if (blocks > blocks_max) {
    blocks = blocks_max;
    spec.notice = spec.hardware + ": KV for " + std::to_string(static_cast<uint64_t>(blocks * options.block_size)) +
                  " tokens is simulated, less than its memory of " + gigabytes(kv_memory) + " would hold";
  }
  if (blocks < 2 && options.kv_memory_mb > 0) {
    return invalid_argument("--kv-memory-mb asks for " + gigabytes(kv_memory) + ", less than two blocks of " +
                            std::to_string(options.block_size) + " tokens of " + model.shape.name +
                            " take: give at least " +
                            std::to_string(static_cast<uint64_t>(std::ceil(2 * block_bytes / 1048576.0))));
  }
  if (blocks < 2) {
    return invalid_argument(what + " leaves " + gigabytes(kv_memory) + " for KV, less than two blocks of " +
                            std::to_string(options.block_size) + " tokens take (" + gigabytes(2 * block_bytes) + "); " +
                            where + ": " + advice(group, model.held_bytes + 2 * block_bytes, options.memory_fraction));
  }

  BackendInfo& info = spec.info;
  info.name = "sim " + spec.hardware;
  info.vocab_size = model.shape.vocab_size;
  info.context_max = model.shape.context_length;
  if (options.context_max > 0) info.context_max = std::min(info.context_max, static_cast<int32_t>(options.context_max));
  info.block_size = static_cast<int32_t>(options.block_size);
  info.block_count = static_cast<int32_t>(blocks);
  info.step_tokens_max = static_cast<int32_t>(limits.max_step_tokens);
  info.step_rows_max = static_cast<int32_t>(std::min(limits.max_running, limits.max_step_tokens));
  info.flops_per_token = 2 * model.shape.layer_parameters();
  info.output_flops = 2 * model.shape.output_parameters();
  info.attention_flops_per_position = 4.0 * model.shape.layers * model.shape.heads * model.shape.head_size;
  info.weight_bytes = model.step_bytes;
  info.kv_bytes_per_token = kv_bytes;
  info.peak_flops = spec.machine.peak_flops;
  info.peak_bytes_per_second = spec.machine.peak_bytes_per_second;
  info.imports_kv = true;
  return spec;
}

uint32_t sequence_tokens_max(const std::vector<MachineSpec>& machines) {
  uint64_t tokens = UINT32_MAX;
  for (const MachineSpec& machine : machines) {
    const BackendInfo& info = machine.info;
    const uint64_t kv_tokens =
        uint64_t{static_cast<uint32_t>(info.block_count)} * static_cast<uint32_t>(info.block_size);
    tokens = std::min({tokens, static_cast<uint64_t>(info.context_max), kv_tokens});
  }
  return static_cast<uint32_t>(tokens);
}

}  // namespace twostroke::simulate
