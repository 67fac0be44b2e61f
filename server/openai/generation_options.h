// GenerationOptions: the parameters that chat and text completions share, read and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/step.h"
#include "scheduler/request.h"
#include "server/openai/field_reader.h"
#include "server/openai/structured_output.h"

namespace twostroke::openai {

// Named bounds of the wire contract.
constexpr int64_t kChoicesMax = kMaxSequences;
constexpr size_t kStopStringsMax = 4;
constexpr size_t kStopStringBytesMax = 1024;
constexpr size_t kStopTokensMax = 256;
constexpr int64_t kTopLogprobsMax = 20;
constexpr int64_t kCompletionLogprobsMax = 5;
constexpr size_t kLogitBiasMax = 1024;
constexpr size_t kBadWordsMax = kMaxBadWords / 2;  // each is up to two of the engine's: with a space before it, too
constexpr size_t kBadWordBytesMax = 256;
constexpr size_t kCacheSaltBytesMax = 1024;

struct GenerationOptions {
  SamplingParams sampling;             // logprobs is set by the protocol's parser
  std::optional<uint32_t> max_tokens;  // none: the protocol's default; 0: only what the prompt gives (echo)
  uint32_t n = 1;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;  // ascending
  bool include_stop = false;            // a stop string or stop token that ended the text is part of it
  bool ignore_eos = false;
  uint32_t min_tokens = 0;
  std::vector<TokenId> allowed_token_ids;  // ascending; empty: all
  std::vector<std::string> bad_words;
  std::shared_ptr<const OutputConstraint> constraint;  // nullptr: any text
  bool skip_special_tokens = true;
  int32_t prompt_logprobs = -1;  // as SamplingParams::logprobs
  bool return_token_ids = false;
  bool include_reasoning = true;
  bool parallel_tool_calls = true;                 // false: calls after the first are dropped
  std::optional<uint32_t> truncate_prompt_tokens;  // only so many of a prompt's last tokens; 0: what fits the context
  int32_t priority = 0;
  Objectives objectives;
  std::string cache_salt;
  std::string user;  // tells tenants apart where there are no API keys (tenants.h)
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;  // every chunk has the usage so far
};

// Reads the shared parameters. Without a seed one is drawn at random. `vocab_size` bounds token ids.
GenerationOptions read_generation_options(FieldReader& fields, int32_t vocab_size);

// `cache_salt`, "" without one.
std::string read_cache_salt(FieldReader& fields);

// Fails on parameters that this server knows of and cannot honour, naming the first and what to use in its place;
// harmless and unknown ones pass.
void refuse_unsupported(FieldReader& fields);

}  // namespace twostroke::openai
