#include "kernels/clock.h"

#include <chrono>

namespace twostroke {
namespace {

class SteadyClock final : public Clock {
 public:
  TimeNs now() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

Clock& steady_clock() {
  static SteadyClock clock;  // holds no state
  return clock;
}

}  // namespace twostroke
