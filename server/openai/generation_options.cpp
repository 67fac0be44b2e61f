#include "server/openai/generation_options.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "server/openai/objectives.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {
namespace {

uint64_t random_seed() {
  static thread_local std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

void read_logit_bias(FieldReader& fields, int32_t vocab_size, SamplingParams& sampling) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) {
    fields.fail("logit_bias",
                "'logit_bias' must be an object that maps token ids to numbers, not " + json_type_name(*bias) + ".");
    return;
  }
  if (bias->size() > kLogitBiasMax) {
    fields.fail("logit_bias", "'logit_bias' may hold at most " + std::to_string(kLogitBiasMax) + " tokens, not " +
                                  std::to_string(bias->size()) + ".");
    return;
  }
  for (const auto& [key, value] : bias->items()) {
    TokenId token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || token >= vocab_size) {
      fields.fail("logit_bias", "'logit_bias' has the key '" + key.substr(0, 40) + "': keys are token ids from 0 to " +
                                    std::to_string(vocab_size - 1) + ".");
      return;
    }
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      fields.fail("logit_bias", "'logit_bias' of token " + key + " must be a number between -100 and 100.");
      return;
    }
    sampling.logit_bias.emplace_back(token, value.get<float>());
  }
  // "7" and "07" are the same token: the last one counts, as for any repeated key.
  auto& list = sampling.logit_bias;
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  list.erase(list.begin(), std::unique(list.rbegin(), list.rend(), [](const auto& a, const auto& b) {
                             return a.first == b.first;
                           }).base());
}

void read_stream_options(FieldReader& fields, GenerationOptions& options) {
  const Json* value = fields.find("stream_options");
  if (value == nullptr) return;
  if (!options.stream) {
    fields.fail("stream_options", "'stream_options' is only allowed when 'stream' is true.");
    return;
  }
  if (!value->is_object()) {
    fields.fail("stream_options", "'stream_options' must be an object, not " + json_type_name(*value) + ".");
    return;
  }
  FieldReader inner(*value, "stream_options.");
  options.include_usage = inner.boolean("include_usage", false);
  options.continuous_usage = inner.boolean("continuous_usage_stats", false);
  fields.fail(inner);
}

// Ascending, each once.
std::vector<TokenId> read_token_set(FieldReader& fields, const char* name, int32_t vocab_size, size_t count_max) {
  const Json* value = fields.find(name);
  if (value == nullptr) return {};
  if (!value->is_array() || value->size() > count_max) {
    fields.fail(name,
                std::string("'") + name + "' must be an array of at most " + std::to_string(count_max) + " token ids.");
    return {};
  }
  if (value->empty()) return {};
  std::vector<TokenId> tokens = read_token_list(fields, name, *value, vocab_size).value_or(std::vector<TokenId>());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

void read_ends(FieldReader& fields, int32_t vocab_size, GenerationOptions& options) {
  if (const auto max_tokens = fields.integer("max_tokens", 0, INT32_MAX)) {
    options.max_tokens = static_cast<uint32_t>(*max_tokens);
  }
  options.min_tokens = static_cast<uint32_t>(fields.integer("min_tokens", 0, INT32_MAX).value_or(0));
  options.stop = fields.strings("stop", kStopStringsMax, kStopStringBytesMax);
  options.stop_token_ids = read_token_set(fields, "stop_token_ids", vocab_size, kStopTokensMax);
  options.include_stop = fields.boolean("include_stop_str_in_output", false);
  options.ignore_eos = fields.boolean("ignore_eos", false);
}

void read_content_rules(FieldReader& fields, int32_t vocab_size, GenerationOptions& options) {
  options.allowed_token_ids = read_token_set(fields, "allowed_token_ids", vocab_size, kMaxAllowedTokens);
  if (const Json* allowed = fields.find("allowed_token_ids"); allowed != nullptr && options.allowed_token_ids.empty()) {
    fields.fail("allowed_token_ids", "'allowed_token_ids' is empty: no token could ever come.");
  }
  options.bad_words = fields.strings("bad_words", kBadWordsMax, kBadWordBytesMax);
  options.constraint = read_output_constraint(fields);
  if (options.constraint != nullptr && options.ignore_eos) {
    fields.fail("ignore_eos", "'ignore_eos' is not possible with '" + options.constraint->param +
                                  "': the answer ends where its format is complete.");
  }
}

void read_returns(FieldReader& fields, GenerationOptions& options) {
  options.skip_special_tokens = fields.boolean("skip_special_tokens", true);
  options.return_token_ids = fields.boolean("return_token_ids", false);
  options.include_reasoning = fields.boolean("include_reasoning", true);
  if (const auto prompt_logprobs = fields.integer("prompt_logprobs", 0, kMaxPromptLogprobs)) {
    options.prompt_logprobs = static_cast<int32_t>(*prompt_logprobs);
    if (options.stream) fields.fail("prompt_logprobs", "'prompt_logprobs' is only allowed when 'stream' is false.");
  }
}

void read_engine_options(FieldReader& fields, GenerationOptions& options) {
  if (const auto count = fields.integer("truncate_prompt_tokens", -1, INT32_MAX)) {
    if (*count == 0) {
      fields.fail("truncate_prompt_tokens", "'truncate_prompt_tokens' must be -1 (what fits) or at least 1.");
    }
    options.truncate_prompt_tokens = *count < 0 ? 0 : static_cast<uint32_t>(*count);
  }
  options.priority = static_cast<int32_t>(fields.integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  options.objectives = read_objectives(fields);
  options.cache_salt = read_cache_salt(fields);
  options.user = fields.string("user").value_or("");
}

}  // namespace

std::string read_cache_salt(FieldReader& fields) {
  const auto salt = fields.string("cache_salt");
  if (!salt) return "";
  if (salt->empty() || salt->size() > kCacheSaltBytesMax) {
    fields.fail("cache_salt",
                "'cache_salt' must be a string of 1 to " + std::to_string(kCacheSaltBytesMax) + " bytes.");
  }
  return *salt;
}

GenerationOptions read_generation_options(FieldReader& fields, int32_t vocab_size) {
  GenerationOptions options;
  SamplingParams& sampling = options.sampling;
  sampling.temperature = static_cast<float>(fields.number("temperature", 1, 0, 2));
  sampling.top_p = static_cast<float>(fields.number("top_p", 1, 0, 1));
  if (sampling.top_p == 0) sampling.top_p = std::numeric_limits<float>::min();  // the most probable token alone
  sampling.min_p = static_cast<float>(fields.number("min_p", 0, 0, 1));
  const int64_t top_k = fields.integer("top_k", -1, INT32_MAX).value_or(0);
  sampling.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));  // -1 and 0 are off
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", 0, -2, 2));
  sampling.frequency_penalty = static_cast<float>(fields.number("frequency_penalty", 0, -2, 2));
  sampling.repetition_penalty = static_cast<float>(fields.number("repetition_penalty", 1, 0.01, 100));
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : random_seed();
  read_logit_bias(fields, vocab_size, sampling);

  options.n = static_cast<uint32_t>(fields.integer("n", 1, kChoicesMax).value_or(1));
  options.stream = fields.boolean("stream", false);
  read_stream_options(fields, options);
  read_ends(fields, vocab_size, options);
  read_content_rules(fields, vocab_size, options);
  read_returns(fields, options);
  read_engine_options(fields, options);
  return options;
}

void refuse_unsupported(FieldReader& fields) {
  // Each would change the answer. What only describes the request (user, metadata, store, ...) passes.
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"audio", "leave it out"},
      {"grammar", "use 'structured_outputs': {\"grammar\": ...}"},
      {"guided_choice", "use 'structured_outputs': {\"choice\": ...}"},
      {"guided_grammar", "use 'structured_outputs': {\"grammar\": ...}"},
      {"guided_json", "use 'structured_outputs': {\"json\": ...}"},
      {"guided_regex", "use 'structured_outputs': {\"regex\": ...}"},
      {"length_penalty", "leave it out"},
      {"prediction", "leave it out"},
      {"use_beam_search", "leave it out"},
      {"web_search_options", "leave it out"},
  };
  for (const auto& [name, advice] : kNames) {
    const Json* value = fields.find(name);
    const bool harmless = value == nullptr || (value->is_boolean() && !value->get<bool>()) ||
                          (value->is_number() && value->get<double>() == 0) ||
                          (value->is_array() && value->empty());  // an empty object asks for it, with its defaults
    if (!harmless) fields.fail(name, std::string("'") + name + "' is not supported by this server: " + advice + ".");
  }
  // Drawing more choices than are returned needs scores that nobody asked for; as many as are returned is what `n`
  // does.
  const Json* best_of = fields.find("best_of");
  if (best_of != nullptr && *best_of != 1 && *best_of != fields.integer("n", 1, kChoicesMax).value_or(1)) {
    fields.fail("best_of", "'best_of' is not supported by this server, except 1 or the value of 'n': use 'n'.");
  }
}

}  // namespace twostroke::openai
