// Steps drawn at random, and what they take on simulated machines: for tests of the cost model.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "backend/sim/machine.h"
#include "scheduler/cost/step_shape.h"

namespace twostroke::test {

// A machine with a model on it.
struct SimProfile {
  std::string name;
  SimMachine machine;
  BackendInfo info;
};

// A large GPU and a small one with 8 billion weights of 2 bytes, and two processor cores with 135 million of 4 bits.
std::vector<SimProfile> sim_profiles();

struct DrawnStep {
  StepShape shape;
  StepWork work;
};

// What a load consists of.
struct StepMix {
  uint32_t decode_rows_max = 32;
  uint32_t decode_context_max = 2000;
  uint32_t chunk_max = 512;
  double prefill_part = 0.5;  // of steps that carry a chunk
};

class StepDraw {
 public:
  explicit StepDraw(uint32_t seed) : random_(seed) {}
  DrawnStep draw(const StepMix& mix);
  // What the step takes, times a factor that is 1 give or take `noise` and, with probability `outliers`, 3 to 10.
  TimeNs time(const SimProfile& profile, const StepWork& work, double noise, double outliers = 0);

 private:
  uint32_t up_to(uint32_t most) { return std::uniform_int_distribution<uint32_t>(1, most)(random_); }
  double unit() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  std::mt19937 random_;
};

}  // namespace twostroke::test
