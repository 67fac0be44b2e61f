// How the benchmark ends when it cannot go on.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace twostroke {

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "bench_streaming: %s\n", message.c_str());
  std::exit(1);
}

}  // namespace twostroke
