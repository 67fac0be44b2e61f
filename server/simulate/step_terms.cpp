#include "server/simulate/step_terms.h"

#include <algorithm>

namespace twostroke::simulate {
namespace {

StepWork work_of(const StepShape& shape) {
  StepWork work;
  work.tokens = shape.tokens();
  work.logit_tokens = shape.logit_tokens;
  work.context = shape.prefill_positions + shape.decode_positions;
  work.attended_positions = shape.prefill_context + shape.decode_context;
  return work;
}

StepTerms scaled(StepTerms terms, double factor) {
  for (double* term : {&terms.compute_seconds, &terms.memory_seconds, &terms.link_seconds, &terms.overhead_seconds,
                       &terms.total_seconds, &terms.flops, &terms.bytes}) {
    *term *= factor;
  }
  return terms;
}

// What `whole` takes beyond `part`. Keeps which of compute and memory binds: that of the whole.
StepTerms beyond(const StepTerms& whole, const StepTerms& part) {
  StepTerms rest = whole;
  rest.total_seconds = std::max(0.0, whole.total_seconds - part.total_seconds);
  rest.link_seconds = std::max(0.0, whole.link_seconds - part.link_seconds);
  rest.overhead_seconds = std::max(0.0, whole.overhead_seconds - part.overhead_seconds);
  rest.flops = std::max(0.0, whole.flops - part.flops);
  rest.bytes = std::max(0.0, whole.bytes - part.bytes);
  return rest;
}

void add_terms(const StepTerms& terms, PhaseAccount& phase) {
  phase.seconds += terms.total_seconds;
  phase.flops += terms.flops;
  phase.bytes += terms.bytes;
  phase.bound.add(terms);
}

// Half of a mixed step: `first` had it alone, `second` joined.
void add_in_order(const StepTerms& whole, StepTerms alone, PhaseAccount& first, PhaseAccount& second) {
  alone.total_seconds = std::min(alone.total_seconds, whole.total_seconds);
  add_terms(scaled(alone, 0.5), first);
  add_terms(scaled(beyond(whole, alone), 0.5), second);
}

}  // namespace

StepShape prefill_part(const StepShape& shape) {
  StepShape part;
  part.prefill_rows = shape.prefill_rows;
  part.prefill_tokens = shape.prefill_tokens;
  part.prefill_context = shape.prefill_context;
  part.prefill_positions = shape.prefill_positions;
  part.logit_tokens = shape.logit_tokens - std::min(shape.logit_tokens, shape.decode_tokens);
  return part;
}

StepShape decode_part(const StepShape& shape) {
  StepShape part;
  part.decode_rows = shape.decode_rows;
  part.decode_tokens = shape.decode_tokens;
  part.decode_context = shape.decode_context;
  part.decode_positions = shape.decode_positions;
  part.logit_tokens = std::min(shape.logit_tokens, shape.decode_tokens);
  return part;
}

StepTerms StepPricer::price(const StepShape& shape) const {
  const StepWork work = work_of(shape);
  const StepCost cost = step_cost(spec_.machine, spec_.info, work);
  StepTerms terms;
  terms.compute_seconds = cost.compute_seconds;
  terms.memory_seconds = cost.memory_seconds;
  terms.flops = cost.compute_seconds * spec_.machine.peak_flops * spec_.machine.compute_efficiency;
  terms.bytes = cost.memory_seconds * spec_.machine.peak_bytes_per_second * spec_.machine.memory_efficiency;
  if (calibrated_) {
    terms.total_seconds = std::max(calibrated_(shape), 0.0);
    return terms;
  }
  terms.link_seconds = spec_.link_seconds_per_step + spec_.link_seconds_per_token * static_cast<double>(work.tokens);
  terms.overhead_seconds = static_cast<double>(spec_.machine.step_overhead_ns) * 1e-9;
  terms.total_seconds =
      std::max(terms.compute_seconds, terms.memory_seconds) + terms.link_seconds + terms.overhead_seconds;
  return terms;
}

double lone_prompt_seconds(const StepPricer& pricer, uint32_t prompt_tokens, uint32_t chunk_tokens) {
  const uint32_t chunks = (prompt_tokens - 1) / chunk_tokens + 1;
  StepShape shape;
  shape.prefill_rows = shape.logit_tokens = 1;
  shape.prefill_tokens = (prompt_tokens - 1) / chunks + 1;
  shape.prefill_context = uint64_t{shape.prefill_tokens} * (prompt_tokens + 1) / 2;
  shape.prefill_positions = (uint64_t{prompt_tokens} + shape.prefill_tokens) / 2;
  return chunks * pricer.price(shape).total_seconds;
}

double lone_answer_seconds(const StepPricer& pricer, uint32_t prompt_tokens, uint32_t output_tokens) {
  StepShape shape;
  shape.decode_rows = shape.decode_tokens = shape.logit_tokens = 1;
  shape.decode_context = shape.decode_positions = prompt_tokens + (uint64_t{output_tokens} + 1) / 2;
  return (output_tokens - 1) * pricer.price(shape).total_seconds;
}

void BoundSeconds::add(const StepTerms& terms) {
  link += terms.link_seconds;
  overhead += terms.overhead_seconds;
  (terms.compute_binds() ? compute : memory) += terms.total_seconds - terms.link_seconds - terms.overhead_seconds;
}

BoundSeconds& BoundSeconds::operator+=(const BoundSeconds& other) {
  compute += other.compute;
  memory += other.memory;
  link += other.link;
  overhead += other.overhead;
  return *this;
}

PhaseAccount& PhaseAccount::operator+=(const PhaseAccount& other) {
  tokens += other.tokens;
  seconds += other.seconds;
  step_seconds += other.step_seconds;
  flops += other.flops;
  bytes += other.bytes;
  bound += other.bound;
  return *this;
}

void StepAccounts::add(const StepPricer& pricer, const StepShape& shape, const StepTerms& whole) {
  ++steps;
  prefill.tokens += shape.prefill_tokens;
  decode.tokens += shape.decode_tokens;
  if (shape.prefill_rows > 0) prefill.step_seconds += whole.total_seconds;
  if (shape.decode_rows > 0) decode.step_seconds += whole.total_seconds;
  if (shape.decode_rows == 0 || shape.prefill_rows == 0) {
    add_terms(whole, shape.decode_rows == 0 ? prefill : decode);
    return;
  }
  ++mixed_steps;
  mixed_seconds += whole.total_seconds;
  add_in_order(whole, pricer.price(decode_part(shape)), decode, prefill);
  add_in_order(whole, pricer.price(prefill_part(shape)), prefill, decode);
}

StepAccounts& StepAccounts::operator+=(const StepAccounts& other) {
  steps += other.steps;
  mixed_steps += other.mixed_steps;
  mixed_seconds += other.mixed_seconds;
  prefill += other.prefill;
  decode += other.decode;
  return *this;
}

}  // namespace twostroke::simulate
