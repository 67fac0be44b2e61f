#include "server/openai/token_list.h"

#include "server/text/detokenizer.h"

namespace twostroke::openai {

std::optional<std::vector<TokenId>> read_token_list(FieldReader& fields, const char* name, const Json& array,
                                                    int32_t vocab_size) {
  const std::string field = std::string("'") + name + "'";
  if (!array.is_array()) {
    fields.fail(name, field + " must be an array of token ids, not " + json_type_name(array) + ".");
    return std::nullopt;
  }
  if (array.empty()) {
    fields.fail(name, field + " holds an empty list of tokens: give at least one token.");
    return std::nullopt;
  }
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  for (const Json& item : array) {
    if (!item.is_number_integer() || item < 0 || item >= vocab_size) {
      fields.fail(name, field + " holds " + to_text(item).substr(0, 40) +
                            " where a token id is needed: ids are integers from 0 to " +
                            std::to_string(vocab_size - 1) + ".");
      return std::nullopt;
    }
    tokens.push_back(item.get<TokenId>());
  }
  return tokens;
}

std::string token_list_json(std::span<const TokenId> tokens) {
  std::string out = "[";
  for (const TokenId token : tokens) {
    if (out.size() > 1) out += ',';
    out += std::to_string(token);
  }
  out += ']';
  return out;
}

std::string text_of_tokens(const Tokenizer& tokenizer, std::span<const TokenId> tokens) {
  Detokenizer detokenizer(tokenizer, /*at_start=*/true, /*skip_special=*/false);
  std::string text;
  for (const TokenId token : tokens) text += detokenizer.push(token);
  text += detokenizer.finish();
  return text;
}

}  // namespace twostroke::openai
