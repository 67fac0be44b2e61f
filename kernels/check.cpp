#include "kernels/check.h"

#include <cstdio>
#include <cstdlib>

namespace twostroke {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "CHECK failed: %s:%d: %s%s%.*s\n", file, line, condition, message.empty() ? "" : ": ",
               static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace twostroke
