#include "backend/plugin_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
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

twostroke_row convert_row(const Row& from, const StepPlan& plan) {
  twostroke_row row = {};
  row.struct_size = sizeof(row);
  row.samples = from.samples ? 1 : 0;
  row.sequence = from.sequence;
  row.token_begin = from.token_begin;
  row.token_count = from.token_count;
  row.position = from.position;
  row.block_begin = from.block_begin;
  row.block_count = from.block_count;
  row.targets = from.targets.empty() ? nullptr : from.targets.data();
  row.target_count = static_cast<uint32_t>(from.targets.size());
  row.target_logprobs = from.target_logprobs;
  row.pooling = static_cast<uint32_t>(from.pooling);
  if (from.samples) {
    row.prompt_count = from.prompt_count;
    row.history = from.history.data();
    row.mask = from.mask.empty() ? nullptr : from.mask.data();
  }
  row.draft_count = from.draft_count;
  const std::span<const TokenId> drafts = from.drafts_in(plan.tokens);
  row.drafts = drafts.empty() ? nullptr : drafts.data();
  return row;
}

bool is_token(int32_t token, const BackendInfo& info) { return token >= 0 && token < info.vocab_size; }

static_assert(static_cast<int>(Pooling::kNone) == TWOSTROKE_POOLING_NONE);
static_assert(static_cast<int>(Pooling::kMean) == TWOSTROKE_POOLING_MEAN);
static_assert(static_cast<int>(Pooling::kLast) == TWOSTROKE_POOLING_LAST);

// `top` may be anything until it is copied: its tokens and numbers are a plug-in's.
std::string read_top(const twostroke_logprob* top, uint32_t count, uint32_t asked, const BackendInfo& info,
                     std::vector<TokenLogprob>& to) {
  to.clear();
  if (count > asked) {
    return "it has " + std::to_string(count) + " top tokens where " + std::to_string(asked) + " were asked for";
  }
  if (count > 0 && top == nullptr) return "its top tokens are null";
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_token(top[i].token, info)) return "a top token is outside the vocabulary";
    if (!std::isfinite(top[i].logprob)) return "a top token's log-probability is not finite";
    to.push_back({top[i].token, top[i].logprob});
  }
  return {};
}

// Of a row's token (twostroke_row_result, RowResult), or of one behind an accepted draft.
template <typename From, typename To>
std::string read_logprobs(const From& from, int32_t asked, const BackendInfo& info, To& to) {
  if (asked < 0) return {};
  if (!std::isfinite(from.logprob)) return "its log-probability is not finite";
  if (from.rank > static_cast<uint32_t>(info.vocab_size)) return "its rank is greater than the vocabulary";
  to.logprob = from.logprob;
  to.rank = from.rank;
  return read_top(from.top, from.top_count, static_cast<uint32_t>(asked), info, to.top);
}

std::string read_targets(const twostroke_row_result& from, const Row& row, const BackendInfo& info, RowResult& to) {
  if (row.targets.empty()) return {};
  if (from.target_count != row.targets.size()) {
    return "it has " + std::to_string(from.target_count) + " targets, not " + std::to_string(row.targets.size());
  }
  if (from.targets == nullptr) return "its targets are null";
  to.targets.resize(row.targets.size());
  for (size_t i = 0; i < row.targets.size(); ++i) {
    const twostroke_score& score = from.targets[i];
    if (!std::isfinite(score.logprob)) return "a target's log-probability is not finite";
    if (score.rank > static_cast<uint32_t>(info.vocab_size)) return "a target's rank is greater than the vocabulary";
    to.targets[i].logprob = score.logprob;
    to.targets[i].rank = score.rank;
    if (std::string fault = read_top(score.top, score.top_count, row.target_logprobs, info, to.targets[i].top);
        !fault.empty()) {
      return fault;
    }
  }
  return {};
}

std::string read_hidden(const twostroke_row_result& from, const Row& row, const BackendInfo& info, RowResult& to) {
  if (row.pooling == Pooling::kNone) return {};
  if (from.hidden == nullptr) return "its hidden state is null";
  to.hidden.assign(from.hidden, from.hidden + info.embedding_size);
  for (const float number : to.hidden) {
    if (!std::isfinite(number)) return "its hidden state is not finite";
  }
  return {};
}

std::string not_a_token(int32_t token, const BackendInfo& info) {
  return "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(info.vocab_size);
}

// to.token has been read.
std::string read_following(const twostroke_row_result& from, const Row& row, std::span<const TokenId> drafts,
                           const BackendInfo& info, RowResult& to) {
  if (from.following_count > row.draft_count) {
    return "it has " + std::to_string(from.following_count) + " tokens behind its first, and only " +
           std::to_string(row.draft_count) + " drafts";
  }
  if (from.following_count > 0 && from.following == nullptr) return "the tokens behind its first are null";
  TokenId last = to.token;
  for (uint32_t i = 0; i < from.following_count; ++i) {
    const twostroke_sampled& next = from.following[i];
    if (last != drafts[i]) {
      return "it goes on behind token " + std::to_string(last) + ", which is not its draft " +
             std::to_string(drafts[i]);
    }
    if (!is_token(next.token, info)) return not_a_token(next.token, info);
    SampledToken& added = to.following.emplace_back();
    added.token = last = next.token;
    if (std::string fault = read_logprobs(next, row.sampling->logprobs, info, added); !fault.empty()) return fault;
  }
  return {};
}

// Without what was added to the first version of the struct.
constexpr size_t kRowResultBytesMin = offsetof(twostroke_row_result, rank);

// As much as the plug-in knows of it; the rest is 0.
twostroke_row_result copy_row(const std::byte* from, uint32_t row_size) {
  uint32_t struct_size = 0;
  std::memcpy(&struct_size, from, sizeof(struct_size));
  twostroke_row_result row = {};
  std::memcpy(&row, from,
              std::min({size_t{row_size}, sizeof(row), std::max(size_t{struct_size}, sizeof(struct_size))}));
  return row;
}

std::string read_row(const twostroke_row_result& from, const Row& row, const StepPlan& plan, const BackendInfo& info,
                     RowResult& to) {
  to.reset();
  if (from.struct_size < kRowResultBytesMin) return "its struct_size is too small";
  if (from.status == TWOSTROKE_ROW_NOT_FINITE) {
    to.status = RowStatus::kNotFinite;
    return {};
  }
  if (from.status != TWOSTROKE_ROW_OK) return "it has the unknown status " + std::to_string(from.status);
  if (std::string fault = read_targets(from, row, info, to); !fault.empty()) return fault;
  if (std::string fault = read_hidden(from, row, info, to); !fault.empty()) return fault;
  if (!row.samples) return {};
  if (!is_token(from.token, info)) return not_a_token(from.token, info);
  const auto token = static_cast<uint32_t>(from.token);
  if (!row.mask.empty() && ((row.mask[token / 32] >> (token % 32)) & 1) == 0) {
    return "token " + std::to_string(from.token) + " is one that its mask forbids";
  }
  to.token = from.token;
  if (std::string fault = read_logprobs(from, row.sampling->logprobs, info, to); !fault.empty()) return fault;
  return read_following(from, row, row.drafts_in(plan.tokens), info, to);
}

}  // namespace

const twostroke_step& PluginStep::convert(const StepPlan& plan) {
  rows_.clear();
  samplings_.clear();
  biases_.clear();
  copies_.clear();
  for (const BlockCopy& copy : plan.copies) copies_.push_back({copy.source, copy.target});
  for (const Row& row : plan.rows) {
    rows_.push_back(convert_row(row, plan));
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
  if (returned->row_size < kRowResultBytesMin) return "the result's row_size is too small";
  result.rows.resize(plan.rows.size());
  const auto* bytes = reinterpret_cast<const std::byte*>(returned->rows);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const twostroke_row_result row = copy_row(bytes + i * returned->row_size, returned->row_size);
    const std::string fault = read_row(row, plan.rows[i], plan, info, result.rows[i]);
    if (!fault.empty()) return "row " + std::to_string(i) + ": " + fault;
  }
  return {};
}

}  // namespace twostroke
