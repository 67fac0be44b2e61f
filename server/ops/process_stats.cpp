#include "server/ops/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace twostroke {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// proc(5): the second number of statm is the resident size in pages.
uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  if (!(statm >> size >> resident)) return 0;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator found("/proc/self/fd", error);
  if (error) return 0;
  uint64_t count = 0;
  for (auto it = begin(found); it != end(found); it.increment(error)) {
    if (error) return 0;
    ++count;
  }
  return count > 0 ? count - 1 : 0;  // without the one that reads this
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) stats.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  stats.resident_bytes = resident_bytes();
  stats.open_descriptors = open_descriptors();
  return stats;
}

}  // namespace twostroke
