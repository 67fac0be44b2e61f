#include "server/text/tokenizer_spec.h"

#include <limits>
#include <utility>

namespace twostroke {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kMerges = "tokenizer.ggml.merges";

Status read_string(const GgufFile& file, const char* key, std::string& out) {
  const Result<std::string_view> value = file.get_string_or(key, "");
  if (!value.ok()) return value.status();
  out = *value;
  return {};
}

Status read_strings(const GgufFile& file, const char* key, std::vector<std::string>& out) {
  const Result<std::span<const std::string_view>> values = file.get_strings(key);
  if (!values.ok()) return values.status();
  out.assign(values->begin(), values->end());
  return {};
}

Status read_flag(const GgufFile& file, const char* key, std::optional<bool>& out) {
  if (!file.find(key)) return {};
  const Result<bool> value = file.get_bool(key);
  if (!value.ok()) return value.status();
  out = *value;
  return {};
}

Status read_id(const GgufFile& file, const char* key, size_t vocab_size, std::optional<TokenId>& out) {
  if (!file.find(key)) return {};
  const Result<uint64_t> value = file.get_u64(key);
  if (!value.ok()) return value.status();
  if (*value >= vocab_size) {
    return invalid_argument(std::string(key) + " is " + std::to_string(*value) + ", but the vocabulary has only " +
                            std::to_string(vocab_size) + " tokens");
  }
  out = static_cast<TokenId>(*value);
  return {};
}

Status read_types(const GgufFile& file, std::vector<TokenType>& out) {
  if (!file.find(kTypes)) return {};
  const Result<std::vector<int64_t>> values = file.get_i64s(kTypes);
  if (!values.ok()) return values.status();
  out.reserve(values->size());
  for (const int64_t value : *values) {
    // 0 is "undefined" in the format; such a token has a text and no other meaning.
    if (value < 0 || value > static_cast<int64_t>(TokenType::kByte)) {
      return invalid_argument(std::string(kTypes) + " holds the unknown token type " + std::to_string(value));
    }
    out.push_back(value == 0 ? TokenType::kUnused : static_cast<TokenType>(value));
  }
  return {};
}

Status read_scores(const GgufFile& file, std::vector<float>& out) {
  if (!file.find(kScores)) return {};
  const Result<std::vector<double>> values = file.get_f64s(kScores);
  if (!values.ok()) return values.status();
  out.reserve(values->size());
  for (const double value : *values) out.push_back(static_cast<float>(value));
  return {};
}

}  // namespace

Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file) {
  TokenizerSpec spec;
  const Result<std::string_view> model = file.get_string("tokenizer.ggml.model");
  if (!model.ok()) return model.status();
  spec.model = *model;
  if (Status s = read_string(file, "tokenizer.ggml.pre", spec.pre); !s.ok()) return s;
  if (Status s = read_string(file, "general.name", spec.model_name); !s.ok()) return s;
  if (Status s = read_strings(file, kTokens, spec.tokens); !s.ok()) return s;
  if (spec.tokens.size() > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
    return invalid_argument(std::string(kTokens) + " holds more tokens than an id can count");
  }
  if (Status s = read_types(file, spec.types); !s.ok()) return s;
  if (Status s = read_scores(file, spec.scores); !s.ok()) return s;
  if (file.find(kMerges)) {
    if (Status s = read_strings(file, kMerges, spec.merges); !s.ok()) return s;
  }
  const std::pair<const char*, std::optional<TokenId>*> ids[] = {
      {"tokenizer.ggml.bos_token_id", &spec.bos},         {"tokenizer.ggml.eos_token_id", &spec.eos},
      {"tokenizer.ggml.eot_token_id", &spec.eot},         {"tokenizer.ggml.eom_token_id", &spec.eom},
      {"tokenizer.ggml.unknown_token_id", &spec.unknown},
  };
  for (const auto& [key, id] : ids) {
    if (Status s = read_id(file, key, spec.tokens.size(), *id); !s.ok()) return s;
  }
  const std::pair<const char*, std::optional<bool>*> flags[] = {
      {"tokenizer.ggml.add_bos_token", &spec.add_bos},
      {"tokenizer.ggml.add_eos_token", &spec.add_eos},
      {"tokenizer.ggml.add_space_prefix", &spec.add_space_prefix},
  };
  for (const auto& [key, flag] : flags) {
    if (Status s = read_flag(file, key, *flag); !s.ok()) return s;
  }
  return spec;
}

}  // namespace twostroke
