#include "server/simulate/hardware.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "server/simulate/small_file.h"

namespace twostroke::simulate {
namespace {

Hardware make_profile(const char* name, double tflops, double gb_per_s, double memory_gb, double compute_efficiency,
                      double memory_efficiency, double link_gb_per_s) {
  Hardware hardware;
  hardware.name = name;
  hardware.peak_flops = tflops * 1e12;
  hardware.peak_bytes_per_second = gb_per_s * 1e9;
  hardware.memory_bytes = memory_gb * 1e9;
  hardware.compute_efficiency = compute_efficiency;
  hardware.memory_efficiency = memory_efficiency;
  hardware.link_bytes_per_second = link_gb_per_s * 1e9;
  hardware.accelerator = true;
  return hardware;
}

Hardware two_core_cpu() {
  Hardware cpu = make_profile("CPU-2", 0.19, 14, 8, 0.9, 0.9, 0);
  cpu.step_overhead_us = 200;
  cpu.accelerator = false;
  return cpu;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// One number of a profile: where it goes, in which unit, and what it may be.
struct ProfileField {
  const char* key;
  double unit;
  double least;     // in the file's unit
  double greatest;  // likewise
  bool required;
  double Hardware::*target;
};

// Of what is divided by: so little that no machine has it, and enough that no time that follows from it is infinite.
constexpr double kDivisorMin = 1e-6;

constexpr ProfileField kProfileFields[] = {
    {"peak_tflops", 1e12, kDivisorMin, 1e6, true, &Hardware::peak_flops},
    {"bandwidth_gb_per_s", 1e9, kDivisorMin, 1e7, true, &Hardware::peak_bytes_per_second},
    {"memory_gb", 1e9, kDivisorMin, 1e6, true, &Hardware::memory_bytes},
    {"compute_efficiency", 1, kDivisorMin, 1, false, &Hardware::compute_efficiency},
    {"memory_efficiency", 1, kDivisorMin, 1, false, &Hardware::memory_efficiency},
    {"step_overhead_us", 1, 0, 1e7, false, &Hardware::step_overhead_us},
    {"link_gb_per_s", 1e9, kDivisorMin, 1e6, false, &Hardware::link_bytes_per_second},
    {"link_latency_us", 1, 0, 1e7, false, &Hardware::link_latency_us},
};

Status read_number(const nlohmann::json& object, const ProfileField& field, const std::string& source, double& value) {
  const auto found = object.find(field.key);
  if (found == object.end()) {
    if (!field.required) return {};
    return invalid_argument(source + ": \"" + field.key + "\" is missing");
  }
  const double number = found->is_number() ? found->get<double>() : -1;
  if (!(number >= field.least && number <= field.greatest)) {
    char range[64];
    std::snprintf(range, sizeof(range), "from %g to %g", field.least, field.greatest);
    return invalid_argument(source + ": \"" + field.key + "\" must be a number " + range);
  }
  value = number * field.unit;
  return {};
}

}  // namespace

std::span<const Hardware> hardware_profiles() {
  static const std::vector<Hardware> profiles = {
      make_profile("H100", 989.4, 3350, 80, 0.65, 0.85, 450),
      make_profile("H200", 989.4, 4800, 141, 0.65, 0.85, 450),
      make_profile("A100-80GB", 312, 2039, 80, 0.65, 0.85, 300),
      make_profile("L4", 121, 300, 24, 0.5, 0.85, 32),
      make_profile("L40S", 362, 864, 48, 0.65, 0.85, 32),
      make_profile("MI300X", 1307.4, 5300, 192, 0.5, 0.75, 448),
      two_core_cpu(),
  };
  return profiles;
}

Result<Hardware> parse_hardware(std::string_view json, const std::string& source) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return invalid_argument(source + ": a hardware profile is a JSON object");
  Hardware hardware;
  for (const auto& [key, value] : object.items()) {
    const bool known = key == "name" || key == "price_per_hour" ||
                       std::ranges::any_of(kProfileFields, [&](const ProfileField& field) { return field.key == key; });
    if (!known) return invalid_argument(source + ": \"" + key + "\" is not a key of a hardware profile");
  }
  const auto name = object.find("name");
  if (name == object.end() || !name->is_string() || name->get<std::string>().empty()) {
    return invalid_argument(source + ": \"name\" must be a text");
  }
  hardware.name = name->get<std::string>();
  for (const ProfileField& field : kProfileFields) {
    if (Status status = read_number(object, field, source, hardware.*field.target); !status.ok()) return status;
  }
  if (object.contains("price_per_hour")) {
    double price = 0;
    const ProfileField field{"price_per_hour", 1, 0, kPricePerHourMax, false, nullptr};
    if (Status status = read_number(object, field, source, price); !status.ok()) return status;
    hardware.price_per_hour = price;
  }
  return hardware;
}

Result<Hardware> find_hardware(const std::string& name) {
  if (name.ends_with(".json")) {
    const Result<std::string> text = read_small_file(name);
    if (!text.ok()) return text.status();
    return parse_hardware(*text, name);
  }
  std::string names;
  for (const Hardware& hardware : hardware_profiles()) {
    if (equal_ignoring_case(hardware.name, name)) return hardware;
    names += (names.empty() ? "" : ", ") + hardware.name;
  }
  return not_found("there is no hardware profile '" + name + "'; there are " + names +
                   ", and a file of your own: its name ends in .json");
}

}  // namespace twostroke::simulate
