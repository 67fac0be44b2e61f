#include "backend/sim/machine.h"

#include <algorithm>
#include <cmath>

namespace twostroke {

Status SimMachine::validate() const {
  const auto bad = [this](const char* field, const char* range) {
    return invalid_argument("sim machine \"" + name + "\": " + field + " must be " + range);
  };
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  const auto fraction = [](double x) { return x > 0 && x <= 1; };
  if (!positive(peak_flops)) return bad("peak_flops", "greater than 0");
  if (!positive(peak_bytes_per_second)) return bad("peak_bytes_per_second", "greater than 0");
  if (!fraction(compute_efficiency)) return bad("compute_efficiency", "in (0, 1]");
  if (!fraction(memory_efficiency)) return bad("memory_efficiency", "in (0, 1]");
  if (step_overhead_ns < 0) return bad("step_overhead_ns", "0 or more");
  return {};
}

StepWork StepWork::of(const StepPlan& plan) {
  StepWork work;
  work.tokens = plan.tokens.size();
  work.block_copies = plan.copies.size();
  for (const Row& row : plan.rows) {
    const uint64_t count = row.token_count;
    work.logit_tokens += row.targets.size() + (row.samples ? row.draft_count + 1 : 0);
    work.context += row.position + count;
    work.attended_positions += count * row.position + count * (count + 1) / 2;
  }
  return work;
}

StepCost step_cost(const SimMachine& machine, const BackendInfo& info, const StepWork& work) {
  const double flops = static_cast<double>(work.tokens) * info.flops_per_token +
                       static_cast<double>(work.logit_tokens) * info.output_flops +
                       static_cast<double>(work.attended_positions) * info.attention_flops_per_position;
  const double kv_tokens =
      static_cast<double>(work.context + work.tokens) + 2.0 * info.block_size * static_cast<double>(work.block_copies);
  const double bytes = info.weight_bytes + info.kv_bytes_per_token * kv_tokens;
  StepCost cost;
  cost.compute_seconds = flops / (machine.peak_flops * machine.compute_efficiency);
  cost.memory_seconds = bytes / (machine.peak_bytes_per_second * machine.memory_efficiency);
  // Beyond an hour a step is a mistake in the numbers; the bound keeps the conversion to an integer defined.
  const double seconds = std::min(std::max(cost.compute_seconds, cost.memory_seconds), 3600.0);
  cost.total_ns = machine.step_overhead_ns + static_cast<TimeNs>(seconds * 1e9);
  return cost;
}

}  // namespace twostroke
