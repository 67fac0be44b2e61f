// GenerationOptions: the parameters that chat and text completions share, read and checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/step.h"
#include "server/openai/field_reader.h"

namespace twostroke::openai {

// Named bounds of the wire contract.
constexpr int64_t kChoicesMax = 128;
constexpr size_t kStopStringsMax = 4;
constexpr size_t kStopStringBytesMax = 1024;
constexpr int64_t kTopLogprobsMax = 20;
constexpr int64_t kCompletionLogprobsMax = 5;
constexpr size_t kLogitBiasMax = 1024;

struct GenerationOptions {
  SamplingParams sampling;             // logprobs is set by the protocol's parser
  std::optional<uint32_t> max_tokens;  // none: the protocol's default
  uint32_t n = 1;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;  // sorted
  bool include_stop = false;            // a stop string or stop token that ended the text is part of it
  bool ignore_eos = false;
  uint32_t min_tokens = 0;
  bool skip_special_tokens = true;
  bool return_token_ids = false;
  bool parallel_tool_calls = true;  // false: calls after the first are dropped
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // every chunk has the usage so far
};

// Reads the shared parameters. Without a seed one is drawn at random. `vocab_size` bounds logit_bias.
GenerationOptions read_generation_options(FieldReader& fields, int32_t vocab_size);

// Fails on parameters that this server knows of and cannot honour, naming the first; harmless and unknown ones pass.
void refuse_unsupported(FieldReader& fields);

}  // namespace twostroke::openai
