// ProcessStats: what this process uses of the machine, as the operating system counts it. Thread-safety: pure.
#pragma once

#include <cstdint>

namespace twostroke {

struct ProcessStats {
  double cpu_seconds = 0;  // user and system, all threads, since the start
  uint64_t resident_bytes = 0;
  uint64_t open_descriptors = 0;
};

// Now. What cannot be read is 0.
ProcessStats read_process_stats();

}  // namespace twostroke
