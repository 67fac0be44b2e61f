#include "server/simulate/fleet.h"

#include <charconv>
#include <string_view>

namespace twostroke::simulate {
namespace {

Status misspelt(const std::string& text, const std::string& what) {
  return invalid_argument("the fleet '" + text + "' " + what +
                          "; write COUNTxPROFILE, COUNTxPROFILE:tpN for N devices to a replica, or "
                          "prefill=...,decode=...");
}

std::optional<uint32_t> parse_count(std::string_view digits) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// "4xH100:tp2", without a role.
Result<Group> parse_group(const std::string& text, std::string_view part) {
  uint32_t devices = 1;
  if (const size_t times = part.find('x'); times != std::string_view::npos && times > 0) {
    // A profile's name may hold an x of its own: only digits before it make it a count.
    if (const std::optional<uint32_t> count = parse_count(part.substr(0, times))) {
      if (*count == 0) return misspelt(text, "has a count of 0");
      devices = *count;
      part.remove_prefix(times + 1);
    }
  }
  Group group;
  if (const size_t colon = part.rfind(":tp"); colon != std::string_view::npos) {
    const std::optional<uint32_t> degree = parse_count(part.substr(colon + 3));
    if (!degree || *degree == 0 || *degree > kTensorParallelMax) {
      return misspelt(text, "has a tensor parallel degree that is not from 1 to " + std::to_string(kTensorParallelMax));
    }
    group.tensor_parallel = *degree;
    part = part.substr(0, colon);
  }
  if (part.empty()) return misspelt(text, "names no hardware");
  if (devices % group.tensor_parallel != 0) {
    return misspelt(text, "has " + std::to_string(devices) + " devices, which do not divide into replicas of " +
                              std::to_string(group.tensor_parallel));
  }
  group.replicas = devices / group.tensor_parallel;
  Result<Hardware> hardware = find_hardware(std::string(part));
  if (!hardware.ok()) return hardware.status();
  group.hardware = std::move(*hardware);
  if (group.tensor_parallel > 1 && group.hardware.link_bytes_per_second == 0) {
    return invalid_argument("the fleet '" + text + "' has " + std::to_string(group.tensor_parallel) +
                            " devices to a replica, but the profile " + group.hardware.name +
                            " has no link between devices (\"link_gb_per_s\")");
  }
  return group;
}

}  // namespace

uint32_t Fleet::replicas() const {
  uint32_t sum = 0;
  for (const Group& group : groups) sum += group.replicas;
  return sum;
}

std::optional<double> Fleet::price_per_hour() const {
  double sum = 0;
  for (const Group& group : groups) {
    if (!group.hardware.price_per_hour) return std::nullopt;
    sum += group.devices() * *group.hardware.price_per_hour;
  }
  return sum;
}

Result<Fleet> parse_fleet(const std::string& text, const std::map<std::string, double>& prices) {
  constexpr std::string_view kPrefill = "prefill=";
  constexpr std::string_view kDecode = "decode=";
  Fleet fleet;
  fleet.name = text;
  std::vector<std::pair<Role, std::string_view>> parts;
  if (text.starts_with(kPrefill)) {
    const size_t comma = text.find(',');
    const std::string_view rest = comma == std::string::npos ? "" : std::string_view(text).substr(comma + 1);
    if (!rest.starts_with(kDecode)) return misspelt(text, "has prefill machines, but none for decode");
    parts.emplace_back(Role::kPrefill, std::string_view(text).substr(kPrefill.size(), comma - kPrefill.size()));
    parts.emplace_back(Role::kDecode, rest.substr(kDecode.size()));
  } else if (text.starts_with(kDecode)) {
    return misspelt(text, "has to name the prefill machines first");
  } else {
    parts.emplace_back(Role::kBoth, text);
  }
  for (const auto& [role, part] : parts) {
    Result<Group> group = parse_group(text, part);
    if (!group.ok()) return group.status();
    group->role = role;
    if (const auto price = prices.find(group->hardware.name); price != prices.end()) {
      group->hardware.price_per_hour = price->second;
    }
    fleet.groups.push_back(std::move(*group));
  }
  if (fleet.replicas() > kReplicasMax) {
    return misspelt(text, "has " + std::to_string(fleet.replicas()) + " replicas; at most " +
                              std::to_string(kReplicasMax) + " are simulated");
  }
  return fleet;
}

}  // namespace twostroke::simulate
