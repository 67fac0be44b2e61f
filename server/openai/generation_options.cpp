#include "server/openai/generation_options.h"

#include <algorithm>
#include <charconv>
#include <random>

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
  FieldReader inner(*value);
  options.include_usage = inner.boolean("include_usage", false);
  if (inner.boolean("continuous_usage_stats", false)) {
    fields.fail("stream_options", "'stream_options.continuous_usage_stats' is not supported: use 'include_usage'.");
  }
  if (inner.error()) fields.fail("stream_options." + *inner.error()->param, inner.error()->message);
}

}  // namespace

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
  options.stop = fields.strings("stop", kStopStringsMax, kStopStringBytesMax);
  options.ignore_eos = fields.boolean("ignore_eos", false);
  options.stream = fields.boolean("stream", false);
  read_stream_options(fields, options);
  if (const auto max_tokens = fields.integer("max_tokens", 1, INT32_MAX)) {
    options.max_tokens = static_cast<uint32_t>(*max_tokens);
  }
  return options;
}

void refuse_unsupported(FieldReader& fields) {
  // Each would change the answer. What only describes the request (user, metadata, store, ...) passes.
  static constexpr const char* kNames[] = {
      "allowed_token_ids",
      "audio",
      "bad_words",
      "grammar",
      "guided_choice",
      "guided_grammar",
      "guided_json",
      "guided_regex",
      "include_stop_str_in_output",
      "length_penalty",
      "min_tokens",
      "prediction",
      "priority",
      "prompt_logprobs",
      "return_token_ids",
      "stop_token_ids",
      "structured_outputs",
      "truncate_prompt_tokens",
      "use_beam_search",
      "web_search_options",
  };
  for (const char* name : kNames) {
    const Json* value = fields.find(name);
    const bool harmless = value == nullptr || (value->is_boolean() && !value->get<bool>()) ||
                          (value->is_number() && value->get<double>() == 0) ||
                          ((value->is_array() || value->is_object()) && value->empty());
    if (!harmless) fields.fail(name, std::string("'") + name + "' is not supported by this server: leave it out.");
  }
  if (const Json* format = fields.find("response_format")) {
    const bool text = format->is_object() && format->contains("type") && (*format)["type"] == "text";
    if (!text)
      fields.fail("response_format", "'response_format' is not supported by this server, except {\"type\": \"text\"}.");
  }
  if (const Json* best_of = fields.find("best_of"); best_of != nullptr && *best_of != 1) {
    fields.fail("best_of", "'best_of' is not supported by this server, except 1: use 'n'.");
  }
  if (const Json* special = fields.find("skip_special_tokens"); special != nullptr && *special != true) {
    fields.fail("skip_special_tokens", "'skip_special_tokens' is not supported by this server, except true.");
  }
}

}  // namespace twostroke::openai
