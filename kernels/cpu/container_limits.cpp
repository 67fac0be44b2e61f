#include "kernels/cpu/container_limits.h"

#include <algorithm>
#include <fstream>

namespace twostroke {
namespace {

constexpr size_t kGroupDepthMax = 64;

// One number, or none where the file has another form, as "max" is.
template <typename T>
bool read_number(const std::string& path, T& number) {
  std::ifstream file(path);
  return static_cast<bool>(file >> number);
}

void limit_processors(double quota, double period, ContainerLimits& limits) {
  if (quota > 0 && period > 0) limits.processors = std::min(limits.processors, quota / period);
}

// By the files of one group.
void apply_group(const std::string& folder, ContainerLimits& limits) {
  std::ifstream both(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  if (both >> quota >> period) limit_processors(quota, period, limits);
  if (read_number(folder + "/cpu.cfs_quota_us", quota) && read_number(folder + "/cpu.cfs_period_us", period)) {
    limit_processors(quota, period, limits);
  }
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    uint64_t bytes = 0;
    if (read_number(folder + name, bytes) && bytes > 0) limits.memory_bytes = std::min(limits.memory_bytes, bytes);
  }
}

// By a group and all above it up to the mount.
void apply_path(const std::string& mount, std::string path, ContainerLimits& limits) {
  for (size_t depth = 0; depth < kGroupDepthMax; ++depth) {
    apply_group(mount + path, limits);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

ContainerLimits container_limits(const std::string& groups, const std::string& membership) {
  ContainerLimits limits;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // "0::/path", or "4:cpu,cpuacct:/path" of version 1
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    apply_path(controllers.empty() ? groups : groups + "/" + controllers, path, limits);
  }
  return limits;
}

}  // namespace twostroke
