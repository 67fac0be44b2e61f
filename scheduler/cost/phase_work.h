// PhaseWork: the arithmetic and the memory traffic that a step asks for, by phase, estimated from what it is made of.
//
// These are what the step needs at least, the same for every implementation; divided by measured seconds and the
// machine's peaks they give model FLOPs utilisation (PaLM, arXiv:2204.02311, appendix B) and, likewise, model bandwidth
// utilisation. For each phase, with the model's costs in BackendInfo:
//
//   flops          tokens * flops_per_token                   2 for each weight of the layers: a product and a sum
//                + logit tokens * output_flops                the output product, for tokens whose logits are needed
//                + context * attention_flops_per_position     4 * layers * heads * head size for each attended position
//   read bytes     weight_bytes                               once per step, whatever the number of tokens
//                + positions * kv_bytes_per_token             a row's tokens share one read of its keys and values
//   written bytes  tokens * kv_bytes_per_token
//
// (Kaplan et al., arXiv:2001.08361, section 2.1, count the first and the third the same way.) What a step does beside,
// copies of blocks, norms, softmax, activations, the embedding of its tokens, is left out: it is small.
//
// Who reads the weights in a mixed step? Either phase would have read all of them alone, so each is charged with half:
// the Shapley value of a cost that is shared, as CostModel::attribute() shares a mixed step's time. Bytes and seconds
// of a phase then go together, and their quotient stays below the machine's peak. What prefill saves decode, and decode
// prefill, shows as fewer bytes than in pure steps. All tokens of decode rows need their logits; what a step has beyond
// those is prefill's.
//
// Nothing is counted twice and nothing is lost: prefill + decode is the whole step. Thread-safety: pure functions.
#pragma once

#include "backend/backend.h"
#include "scheduler/cost/step_shape.h"

namespace twostroke {

struct Work {
  double flops = 0;
  double read_bytes = 0;
  double written_bytes = 0;

  Work& operator+=(const Work& other) {
    flops += other.flops;
    read_bytes += other.read_bytes;
    written_bytes += other.written_bytes;
    return *this;
  }
};

struct PhaseWork {
  Work prefill;
  Work decode;

  Work total() const { return Work(prefill) += decode; }
};

PhaseWork phase_work(const StepShape& shape, const BackendInfo& info);

}  // namespace twostroke
