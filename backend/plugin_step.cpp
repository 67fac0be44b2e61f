#include "backend/plugin_step.h"

#include <cmath>
#include <cstring>

namespace twostroke {
namespace {

twostroke_sampling convert_sampling(const SamplingParams& params) {
  twostroke_sampling sampling = {};
  sampling.struct_size = sizeof(sampling);
  sampling.temperature = params.temperature;
  sampling.top_p = params.top_p;
  sampling.min_p = params.min_p;
  sampling.top_k = params.top_k;
  sampling.presence_penalty = params.presence_penalty;
  sampling.frequency_penalty = params.frequency_penalty;
  sampling.repetition_penalty = params.repetition_penalty;
  sampling.seed = params.seed;
  sampling.logprobs = params.logprobs;
  sampling.bias_count = static_cast<uint32_t>(params.logit_bias.size());
  return sampling;
}

twostroke_row convert_row(const Row& from) {
  twostroke_row row = {};
  row.struct_size = sizeof(row);
  row.samples = from.samples ? 1 : 0;
  row.sequence = from.sequence;
  row.token_begin = from.token_begin;
  row.token_count = from.token_count;
  row.position = from.position;
  row.block_begin = from.block_begin;
  row.block_count = from.block_count;
  if (from.samples) {
    row.prompt_count = from.prompt_count;
    row.history = from.history.data();
    row.mask = from.mask.empty() ? nullptr : from.mask.data();
  }
  return row;
}

bool is_token(int32_t token, const BackendInfo& info) { return token >= 0 && token < info.vocab_size; }

// `top` may be anything until it is copied: its tokens and numbers are a plug-in's.
std::string read_logprobs(const twostroke_row_result& from, int32_t asked, const BackendInfo& info, RowResult& to) {
  if (asked < 0) return {};
  if (!std::isfinite(from.logprob)) return "its log-probability is not finite";
  to.logprob = from.logprob;
  if (from.top_count > static_cast<uint32_t>(asked)) {
    return "it has " + std::to_string(from.top_count) + " top tokens where " + std::to_string(asked) +
           " were asked for";
  }
  if (from.top_count > 0 && from.top == nullptr) return "its top tokens are null";
  for (uint32_t i = 0; i < from.top_count; ++i) {
    if (!is_token(from.top[i].token, info)) return "a top token is outside the vocabulary";
    if (!std::isfinite(from.top[i].logprob)) return "a top token's log-probability is not finite";
    to.top.push_back({from.top[i].token, from.top[i].logprob});
  }
  return {};
}

std::string read_row(const twostroke_row_result& from, const Row& row, const BackendInfo& info, RowResult& to) {
  to.status = RowStatus::kOk;
  to.token = -1;
  to.logprob = 0;
  to.top.clear();
  if (from.struct_size < sizeof(from)) return "its struct_size is too small";
  if (from.status == TWOSTROKE_ROW_NOT_FINITE) {
    to.status = RowStatus::kNotFinite;
    return {};
  }
  if (from.status != TWOSTROKE_ROW_OK) return "it has the unknown status " + std::to_string(from.status);
  if (!row.samples) return {};
  if (!is_token(from.token, info)) {
    return "token " + std::to_string(from.token) + " is outside the vocabulary of " + std::to_string(info.vocab_size);
  }
  const auto token = static_cast<uint32_t>(from.token);
  if (!row.mask.empty() && ((row.mask[token / 32] >> (token % 32)) & 1) == 0) {
    return "token " + std::to_string(from.token) + " is one that its mask forbids";
  }
  to.token = from.token;
  return read_logprobs(from, row.sampling->logprobs, info, to);
}

}  // namespace

const twostroke_step& PluginStep::convert(const StepPlan& plan) {
  rows_.clear();
  samplings_.clear();
  biases_.clear();
  copies_.clear();
  for (const BlockCopy& copy : plan.copies) copies_.push_back({copy.source, copy.target});
  for (const Row& row : plan.rows) {
    rows_.push_back(convert_row(row));
    if (!row.samples) continue;
    samplings_.push_back(convert_sampling(*row.sampling));
    for (const auto& [token, bias] : row.sampling->logit_bias) biases_.push_back({token, bias});
  }
  // Pointers into the vectors, now that these have stopped growing.
  const twostroke_bias* bias = biases_.data();
  twostroke_sampling* sampling = samplings_.data();
  for (twostroke_row& row : rows_) {
    if (row.samples == 0) continue;
    sampling->bias = sampling->bias_count == 0 ? nullptr : bias;
    bias += sampling->bias_count;
    row.sampling = sampling++;
  }
  step_.struct_size = sizeof(step_);
  step_.step = plan.step;
  step_.tokens = plan.tokens.data();
  step_.blocks = plan.blocks.data();
  step_.copies = copies_.data();
  step_.rows = rows_.data();
  step_.token_count = static_cast<uint32_t>(plan.tokens.size());
  step_.block_count = static_cast<uint32_t>(plan.blocks.size());
  step_.copy_count = static_cast<uint32_t>(copies_.size());
  step_.row_count = static_cast<uint32_t>(rows_.size());
  step_.row_size = sizeof(twostroke_row);
  return step_;
}

std::string read_plugin_result(const twostroke_result* returned, const StepPlan& plan, const BackendInfo& info,
                               StepResult& result) {
  if (returned == nullptr) return "the result is null";
  if (returned->struct_size < sizeof(*returned)) return "the result's struct_size is too small";
  if (returned->row_count != plan.rows.size()) {
    return "the result has " + std::to_string(returned->row_count) + " rows, the step has " +
           std::to_string(plan.rows.size());
  }
  if (returned->rows == nullptr) return "the result's rows are null";
  if (returned->row_size < sizeof(twostroke_row_result)) return "the result's row_size is too small";
  result.rows.resize(plan.rows.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(returned->rows);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    twostroke_row_result row;
    std::memcpy(&row, bytes + i * returned->row_size, sizeof(row));
    const std::string fault = read_row(row, plan.rows[i], info, result.rows[i]);
    if (!fault.empty()) return "row " + std::to_string(i) + ": " + fault;
  }
  return {};
}

}  // namespace twostroke
