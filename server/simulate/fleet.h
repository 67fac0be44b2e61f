// Fleet: the machines that are simulated, as written on the command line.
//
//     4xL40S                        four devices, each a replica of its own that does both phases
//     8xH100:tp4                    eight devices, four to a replica (tensor parallelism)
//     prefill=2xH100,decode=4xA100-80GB:tp2
//                                   disaggregated: the first read prompts, the others answer
//
// A profile is a built-in name or a JSON file (hardware.h); "1x" may be left out. Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/status.h"
#include "server/simulate/hardware.h"

namespace twostroke::simulate {

constexpr uint32_t kReplicasMax = 64;        // of one fleet
constexpr uint32_t kTensorParallelMax = 64;  // devices of one replica

enum class Role : uint8_t {
  kBoth,
  kPrefill,  // makes a request's first token, then hands its KV over
  kDecode,   // makes the others
};

struct Group {
  Role role = Role::kBoth;
  Hardware hardware;
  uint32_t replicas = 1;
  uint32_t tensor_parallel = 1;  // devices of each replica

  uint32_t devices() const { return replicas * tensor_parallel; }
};

struct Fleet {
  std::string name;  // as it was written
  std::vector<Group> groups;

  bool disaggregated() const { return groups.size() == 2; }
  uint32_t replicas() const;
  // Of all devices together; nullopt where one has no price.
  std::optional<double> price_per_hour() const;
};

// `prices` are those of devices by the profile's name, and replace the profile's own.
// Errors: kInvalidArgument that says how a fleet is written; those of find_hardware().
Result<Fleet> parse_fleet(const std::string& text, const std::map<std::string, double>& prices);

}  // namespace twostroke::simulate
