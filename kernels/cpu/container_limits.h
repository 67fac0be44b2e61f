// ContainerLimits: what the control groups of this process let it have of the machine, as `docker run --cpus 2 --memory
// 4g` or a Kubernetes limit sets it. The affinity mask and sysinfo() know nothing of it.
//
// Of version 2 (cpu.max, memory.max; https://docs.kernel.org/admin-guide/cgroup-v2.html) and version 1
// (cpu.cfs_quota_us, cpu.cfs_period_us, memory.limit_in_bytes), of the group of this process and of all above it that
// can be seen.
//
// Thread-safety: pure but for the files that it reads.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace twostroke {

struct ContainerLimits {
  double processors = std::numeric_limits<double>::infinity();  // processor seconds a second
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();
};

// A file that is missing, or has another form, limits nothing. `groups` is where control groups are mounted,
// `membership` the file that says in which of them the process is.
ContainerLimits container_limits(const std::string& groups = "/sys/fs/cgroup",
                                 const std::string& membership = "/proc/self/cgroup");

}  // namespace twostroke
