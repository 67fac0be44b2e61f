#include "scheduler/cost/phase_work.h"

#include <algorithm>

namespace twostroke {
namespace {

// Of rows of one phase, without the weights.
Work rows_work(double tokens, double logit_tokens, double context, double positions, const BackendInfo& info) {
  return {.flops = tokens * info.flops_per_token + logit_tokens * info.output_flops +
                   context * info.attention_flops_per_position,
          .read_bytes = positions * info.kv_bytes_per_token,
          .written_bytes = tokens * info.kv_bytes_per_token};
}

}  // namespace

PhaseWork phase_work(const StepShape& shape, const BackendInfo& info) {
  const uint32_t decode_logits = std::min(shape.logit_tokens, shape.decode_tokens);
  PhaseWork work = {.prefill = rows_work(shape.prefill_tokens, shape.logit_tokens - decode_logits,
                                         static_cast<double>(shape.prefill_context),
                                         static_cast<double>(shape.prefill_positions), info),
                    .decode = rows_work(shape.decode_tokens, decode_logits, static_cast<double>(shape.decode_context),
                                        static_cast<double>(shape.decode_positions), info)};
  const bool mixed = shape.prefill_rows > 0 && shape.decode_rows > 0;
  const double weight_bytes = mixed ? info.weight_bytes / 2 : info.weight_bytes;
  if (shape.prefill_rows > 0) work.prefill.read_bytes += weight_bytes;
  if (shape.decode_rows > 0) work.decode.read_bytes += weight_bytes;
  return work;
}

}  // namespace twostroke
