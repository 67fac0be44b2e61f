// Exports a C++ Backend as a plug-in: the other side of load_plugin. For our own backends that ship as shared objects.
//
//   Result<std::unique_ptr<Backend>> create_backend(const PluginOptions& options);
//   TWOSTROKE_EXPORT_BACKEND(create_backend)
//
// in one source file of the shared object. Link it with hidden visibility and without exporting what the static
// libraries in it define (tests/backend/plugins/CMakeLists.txt shows how): the server has its own copy of those.
//
// No exception crosses: one that escapes from the backend kills it (TWOSTROKE_ERROR_DEAD), since nobody knows in which
// state it left it. Status codes: kUnavailable becomes TWOSTROKE_ERROR_DEAD, every other TWOSTROKE_ERROR_STEP; from
// create, kInvalidArgument, kNotFound and kUnsupported become TWOSTROKE_ERROR_OPTIONS, others TWOSTROKE_ERROR_DEAD.
// Steady state allocates nothing beyond what the backend itself does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/plugin.h"
#include "backend/plugin_options.h"
#include "kernels/status.h"

// The instance behind the ABI's opaque type.
struct twostroke_backend {
  explicit twostroke_backend(std::unique_ptr<twostroke::Backend> given) : backend(std::move(given)) {
    const twostroke::BackendInfo& from = backend->info();
    info.struct_size = sizeof(info);
    info.name = from.name.c_str();
    info.vocab_size = static_cast<uint32_t>(from.vocab_size);
    info.context_max = static_cast<uint32_t>(from.context_max);
    info.block_size = static_cast<uint32_t>(from.block_size);
    info.block_count = static_cast<uint32_t>(from.block_count);
    info.step_tokens_max = static_cast<uint32_t>(from.step_tokens_max);
    info.step_rows_max = static_cast<uint32_t>(from.step_rows_max);
    info.flops_per_token = from.flops_per_token;
    info.weight_bytes = from.weight_bytes;
    info.kv_bytes_per_token = from.kv_bytes_per_token;
    if (from.scores_targets) info.features |= TWOSTROKE_SCORES_TARGETS;
    if (from.late_masks) info.features |= TWOSTROKE_LATE_MASKS;
    info.embedding_size = static_cast<uint32_t>(from.embedding_size);
    info.output_flops = from.output_flops;
    info.attention_flops_per_position = from.attention_flops_per_position;
    info.peak_flops = from.peak_flops;
    info.peak_bytes_per_second = from.peak_bytes_per_second;
    info.step_drafts_max = static_cast<uint32_t>(from.step_drafts_max);
  }

  std::unique_ptr<twostroke::Backend> backend;
  twostroke_info info = {};
  std::string error;

  // Of the step in flight, memory reused.
  twostroke::StepPlan plan;
  std::vector<twostroke::SamplingParams> samplings;  // one per row
  twostroke::StepResult result;
  std::vector<twostroke_row_result> row_results;
  std::vector<twostroke_score> scores;  // of all rows' targets
  std::vector<twostroke_sampled> followings;
  std::vector<twostroke_logprob> logprobs;  // of all rows; in each, of its targets, its token, and those behind it
  twostroke_result returned = {};
};

namespace twostroke::plugin_export {

inline void convert_sampling(const twostroke_sampling& from, SamplingParams& to) {
  to.temperature = from.temperature;
  to.top_p = from.top_p;
  to.min_p = from.min_p;
  to.top_k = from.top_k;
  to.presence_penalty = from.presence_penalty;
  to.frequency_penalty = from.frequency_penalty;
  to.repetition_penalty = from.repetition_penalty;
  to.seed = from.seed;
  to.logprobs = from.logprobs;
  to.logit_bias.clear();
  for (uint32_t i = 0; i < from.bias_count; ++i) to.logit_bias.emplace_back(from.bias[i].token, from.bias[i].bias);
}

inline Row convert_row(const twostroke_row& from, size_t mask_words, const SamplingParams* sampling) {
  Row row;
  row.sequence = from.sequence;
  row.token_begin = from.token_begin;
  row.token_count = from.token_count;
  row.position = from.position;
  row.block_begin = from.block_begin;
  row.block_count = from.block_count;
  row.targets = {from.targets, from.target_count};
  row.target_logprobs = from.target_logprobs;
  row.pooling = static_cast<Pooling>(from.pooling);
  if (from.samples != 0) {
    row.samples = true;
    row.sampling = sampling;
    row.draft_count = from.draft_count;
    row.history = {from.history, size_t{from.position} + from.token_count - from.draft_count};
    row.prompt_count = from.prompt_count;
    if (from.mask != nullptr) row.mask = {from.mask, mask_words};
  }
  return row;
}

// Fills my.plan. Returns what is wrong with the caller's structs, or an empty string.
inline std::string convert_step(const twostroke_step* step, twostroke_backend& my) {
  // The first servers of this version have no targets and no pooling; what they lack is 0.
  constexpr size_t kRowBytesMin = offsetof(twostroke_row, targets);
  if (step == nullptr || step->struct_size < sizeof(*step) || step->row_size < kRowBytesMin) {
    return "the server's step is older than this plug-in";
  }
  const size_t mask_words = (size_t{my.info.vocab_size} + 31) / 32;
  my.plan.clear();
  my.plan.step = step->step;
  my.plan.tokens.assign(step->tokens, step->tokens + step->token_count);
  my.plan.blocks.assign(step->blocks, step->blocks + step->block_count);
  for (uint32_t i = 0; i < step->copy_count; ++i) {
    my.plan.copies.push_back({step->copies[i].source, step->copies[i].target});
  }
  if (my.samplings.size() < step->row_count) my.samplings.resize(step->row_count);
  const auto* bytes = reinterpret_cast<const std::byte*>(step->rows);
  for (uint32_t i = 0; i < step->row_count; ++i) {
    twostroke_row row = {};
    std::memcpy(&row, bytes + size_t{step->row_size} * i, std::min<size_t>(step->row_size, sizeof(row)));
    if (row.pooling > TWOSTROKE_POOLING_LAST) return "the server asks for a kind of pooling that this plug-in lacks";
    if (row.draft_count >= row.token_count) return "a row has drafts alone";
    if (row.samples != 0) {
      if (row.sampling == nullptr || row.sampling->struct_size < sizeof(*row.sampling)) {
        return "the server's sampling settings are older than this plug-in";
      }
      convert_sampling(*row.sampling, my.samplings[i]);
    }
    my.plan.rows.push_back(convert_row(row, mask_words, &my.samplings[i]));
  }
  return {};
}

inline const twostroke_result* convert_result(twostroke_backend& my) {
  my.row_results.clear();
  my.scores.clear();
  my.followings.clear();
  my.logprobs.clear();
  const auto add_top = [&my](const std::vector<TokenLogprob>& top) {
    for (const TokenLogprob& entry : top) my.logprobs.push_back({entry.token, entry.logprob});
    return static_cast<uint32_t>(top.size());
  };
  for (const RowResult& row : my.result.rows) {
    twostroke_row_result out = {};
    out.struct_size = sizeof(out);
    out.status = row.status == RowStatus::kOk ? TWOSTROKE_ROW_OK : TWOSTROKE_ROW_NOT_FINITE;
    out.token = row.token;
    out.logprob = row.logprob;
    out.rank = row.rank;
    out.target_count = static_cast<uint32_t>(row.targets.size());
    out.hidden = row.hidden.empty() ? nullptr : row.hidden.data();
    for (const TokenScore& score : row.targets) {
      my.scores.push_back({score.logprob, score.rank, add_top(score.top), nullptr});
    }
    out.top_count = add_top(row.top);
    out.following_count = static_cast<uint32_t>(row.following.size());
    for (const SampledToken& next : row.following) {
      my.followings.push_back({next.token, next.logprob, next.rank, add_top(next.top), nullptr});
    }
    my.row_results.push_back(out);
  }
  // Pointers into the vectors, now that these have stopped growing.
  const twostroke_logprob* top = my.logprobs.data();
  twostroke_score* score = my.scores.data();
  twostroke_sampled* next = my.followings.data();
  for (twostroke_row_result& row : my.row_results) {
    row.targets = row.target_count == 0 ? nullptr : score;
    for (uint32_t i = 0; i < row.target_count; ++i, ++score) {
      score->top = top;
      top += score->top_count;
    }
    row.top = top;
    top += row.top_count;
    row.following = row.following_count == 0 ? nullptr : next;
    for (uint32_t i = 0; i < row.following_count; ++i, ++next) {
      next->top = top;
      top += next->top_count;
    }
  }
  my.returned = {};
  my.returned.struct_size = sizeof(my.returned);
  my.returned.row_count = static_cast<uint32_t>(my.row_results.size());
  my.returned.rows = my.row_results.data();
  my.returned.row_size = sizeof(twostroke_row_result);
  return &my.returned;
}

inline int fail(twostroke_backend& my, int code, std::string message) noexcept {
  my.error = std::move(message);
  return code;
}

inline int fail(twostroke_backend& my, const Status& status) {
  return fail(my, status.code() == StatusCode::kUnavailable ? TWOSTROKE_ERROR_DEAD : TWOSTROKE_ERROR_STEP,
              status.message());
}

// Calls `function`, which returns a code; an exception becomes TWOSTROKE_ERROR_DEAD, its text going to `report`.
template <typename Function, typename Report>
int guarded(Function&& function, Report&& report) noexcept {
  try {
    return function();
  } catch (const std::exception& exception) {
    report(exception.what());
  } catch (...) {
    report("unknown exception");
  }
  return TWOSTROKE_ERROR_DEAD;
}

inline int guarded_step(twostroke_backend& my, auto&& function) noexcept {
  return guarded(function, [&my](const char* what) { my.error.assign(what); });
}

inline int submit(twostroke_backend* my, const twostroke_step* step) noexcept {
  return guarded_step(*my, [&] {
    if (std::string fault = convert_step(step, *my); !fault.empty()) {
      return fail(*my, TWOSTROKE_ERROR_STEP, std::move(fault));
    }
    const Status status = my->backend->submit(my->plan);
    return status.ok() ? int{TWOSTROKE_OK} : fail(*my, status);
  });
}

inline int wait(twostroke_backend* my, const twostroke_result** result) noexcept {
  *result = nullptr;
  return guarded_step(*my, [&] {
    const Status status = my->backend->wait(my->result);
    if (!status.ok()) return fail(*my, status);
    *result = convert_result(*my);
    return int{TWOSTROKE_OK};
  });
}

inline int create(Result<std::unique_ptr<Backend>> (*make)(const PluginOptions&), const twostroke_options* from,
                  twostroke_backend** backend, char* message, uint32_t message_bytes) noexcept {
  *backend = nullptr;
  const auto explain = [&](const char* text) {
    if (message_bytes == 0) return;
    const size_t length = std::min(std::strlen(text), size_t{message_bytes} - 1);
    std::memcpy(message, text, length);
    message[length] = 0;
  };
  return guarded(
      [&]() -> int {
        if (from->struct_size < sizeof(*from)) {
          explain("the server's options are older than this plug-in");
          return TWOSTROKE_ERROR_OPTIONS;
        }
        const PluginOptions options{.model_path = from->model_path,
                                    .plugin_args = from->plugin_args,
                                    .kv_bytes = from->kv_bytes,
                                    .block_size = from->block_size,
                                    .context_max = from->context_max,
                                    .step_tokens_max = from->step_tokens_max,
                                    .step_rows_max = from->step_rows_max};
        auto made = make(options);
        if (made.ok()) {
          *backend = new twostroke_backend(std::move(made).value());
          return TWOSTROKE_OK;
        }
        explain(made.status().message().c_str());
        const StatusCode code = made.status().code();
        const bool options_are_wrong =
            code == StatusCode::kInvalidArgument || code == StatusCode::kNotFound || code == StatusCode::kUnsupported;
        return options_are_wrong ? TWOSTROKE_ERROR_OPTIONS : TWOSTROKE_ERROR_DEAD;
      },
      explain);
}

// The table of functions of the backend that `make` makes.
template <Result<std::unique_ptr<Backend>> (*make)(const PluginOptions&)>
const twostroke_api* api() {
  static const twostroke_api table = {
      .abi_version = TWOSTROKE_ABI_VERSION,
      .struct_size = sizeof(twostroke_api),
      .create = [](const twostroke_options* options, twostroke_backend** backend, char* message,
                   uint32_t message_bytes) { return create(make, options, backend, message, message_bytes); },
      .destroy = [](twostroke_backend* backend) { delete backend; },
      .info = [](twostroke_backend* backend) -> const twostroke_info* { return &backend->info; },
      .submit = submit,
      .wait = wait,
      .last_error = [](twostroke_backend* backend) { return backend->error.c_str(); },
  };
  return &table;
}

}  // namespace twostroke::plugin_export

#define TWOSTROKE_EXPORT_BACKEND(make_backend)                                                    \
  extern "C" __attribute__((visibility("default"))) const twostroke_api* twostroke_plugin(void) { \
    return twostroke::plugin_export::api<make_backend>();                                         \
  }
