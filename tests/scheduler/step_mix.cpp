#include "tests/scheduler/step_mix.h"

#include <algorithm>

namespace twostroke::test {

std::vector<SimProfile> sim_profiles() {
  BackendInfo eight;  // billion weights: 32 layers, 8 KV heads of 128
  eight.vocab_size = 128'000;
  eight.block_size = 16;
  eight.flops_per_token = 14e9;
  eight.output_flops = 1e9;
  eight.attention_flops_per_position = 4.0 * 32 * 32 * 128;
  eight.weight_bytes = 16e9;
  eight.kv_bytes_per_token = 131'072;
  BackendInfo small;
  small.vocab_size = 49'152;
  small.block_size = 16;
  small.flops_per_token = 0.212e9;
  small.output_flops = 0.057e9;
  small.attention_flops_per_position = 4.0 * 30 * 9 * 64;
  small.weight_bytes = 90e6;
  small.kv_bytes_per_token = 23'040;
  const SimMachine h100{.name = "large GPU", .peak_flops = 989e12, .peak_bytes_per_second = 3.35e12};
  const SimMachine l4{.name = "small GPU", .peak_flops = 121e12, .peak_bytes_per_second = 0.3e12};
  const SimMachine cores{
      .name = "two cores", .peak_flops = 100e9, .peak_bytes_per_second = 20e9, .step_overhead_ns = 200'000};
  return {{"large GPU", h100, eight}, {"small GPU", l4, eight}, {"two cores", cores, small}};
}

DrawnStep StepDraw::draw(const StepMix& mix) {
  DrawnStep step;
  const bool prefills = unit() < mix.prefill_part;
  const uint32_t decodes = mix.decode_rows_max == 0 ? 0 : up_to(mix.decode_rows_max);
  for (uint32_t i = 0; i < decodes; ++i) {
    const uint32_t context = up_to(mix.decode_context_max);
    ++step.shape.decode_rows;
    ++step.shape.decode_tokens;
    step.shape.decode_context += context;
    step.work.context += context;
  }
  step.shape.logit_tokens = decodes;
  if (prefills || decodes == 0) {
    const uint32_t count = up_to(mix.chunk_max);
    const uint32_t position = up_to(mix.decode_context_max) - 1;
    step.shape.prefill_rows = 1;
    step.shape.prefill_tokens = count;
    step.shape.prefill_context = (uint64_t{position} + 1 + position + count) * count / 2;
    step.work.context += position + count;
    if (unit() < 0.3) ++step.shape.logit_tokens;
  }
  step.work.tokens = step.shape.tokens();
  step.work.logit_tokens = step.shape.logit_tokens;
  step.work.attended_positions = step.shape.prefill_context + step.shape.decode_context;
  return step;
}

TimeNs StepDraw::time(const SimProfile& profile, const StepWork& work, double noise, double outliers) {
  double factor = std::max(0.1, std::normal_distribution<double>(1, noise > 0 ? noise : 1e-9)(random_));
  if (unit() < outliers) factor *= 3 + 7 * unit();
  return static_cast<TimeNs>(factor * static_cast<double>(step_cost(profile.machine, profile.info, work).total_ns));
}

}  // namespace twostroke::test
