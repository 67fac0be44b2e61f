// MachineSpec: one replica of a fleet with a model on it: what SimBackend and the step costs are made from.
//
// The devices of a replica work as one: peaks, bandwidth and memory add up. For N of them, tensor parallelism costs
//   - the two all-reduces of each layer, of 2 bytes for each token and element of the hidden state, over a ring:
//       2 * layers * (latency + 2 * (N - 1) / N * tokens * D * 2 bytes / link)      seconds, not overlapped with work
//     (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005);
//   - kTensorParallelEfficiency of both peaks for each doubling of N, since each device's share of a matrix is smaller:
//     an estimate of ours.
// Where N exceeds the KV heads, each head is held by several devices, and KV takes that much more memory.
//
// Memory: of each device --memory-fraction is used, for the weights first and then for KV; the rest is left for
// activations and the runtime.
//
// Thread-safety: plain values.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/sim/machine.h"
#include "kernels/status.h"
#include "scheduler/scheduler.h"
#include "server/simulate/fleet.h"
#include "server/simulate/model_shape.h"

namespace twostroke::simulate {

constexpr double kTensorParallelEfficiency = 0.97;

// KV positions of all replicas of a fleet together: each takes 28 bytes here. Memory of the fleet beyond that stays
// unused, which is said in a notice.
constexpr uint64_t kKvPositionsMax = uint64_t{1} << 25;

struct MachineOptions {
  double memory_fraction = 0.9;  // (0, 1]
  uint32_t block_size = 16;
  uint32_t context_max = 0;   // 0: the model's
  uint64_t kv_memory_mb = 0;  // for each replica; 0: what the weights leave
};

struct MachineSpec {
  Role role = Role::kBoth;
  std::string hardware;  // "H100", or "4 x H100"
  SimMachine machine;
  BackendInfo info;
  double price_per_hour = 0;
  // Of tensor parallelism; 0 for one device.
  double link_seconds_per_step = 0;
  double link_seconds_per_token = 0;
  std::string notice;  // what the operator should know; mostly empty
};

// Errors: kInvalidArgument with the numbers, when the model and one request do not fit.
Result<MachineSpec> make_machine(const Group& group, const Model& model, const MachineOptions& options,
                                 const SchedulerLimits& limits, uint32_t fleet_replicas);

// Tokens of prompt and answer together that every machine of a fleet can hold: by its context and its KV memory.
uint32_t sequence_tokens_max(const std::vector<MachineSpec>& machines);

}  // namespace twostroke::simulate
