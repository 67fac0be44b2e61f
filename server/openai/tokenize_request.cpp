#include "server/openai/tokenize_request.h"

#include "server/openai/token_list.h"

namespace twostroke::openai {

std::variant<TokenizeRequest, ApiError> parse_tokenize_request(const Json& body, int32_t vocab_size) {
  FieldReader fields(body);
  TokenizeRequest request;
  request.model = fields.string("model").value_or("");
  request.return_token_strs = fields.boolean("return_token_strs", false);
  const bool chat = fields.find("messages") != nullptr;
  request.add_special_tokens = fields.boolean("add_special_tokens", !chat);
  if (chat) {
    if (fields.find("prompt") != nullptr) fields.fail("prompt", "Give either 'prompt' or 'messages', not both.");
    if (request.add_special_tokens) {
      fields.fail("add_special_tokens",
                  "'add_special_tokens' is for 'prompt': a chat template writes the special tokens itself.");
    }
    if (fields.error()) return *fields.error();
    auto parsed = parse_chat_request(body, vocab_size);
    if (const auto* error = std::get_if<ApiError>(&parsed)) return *error;
    request.input = std::get<ChatRequest>(std::move(parsed));
    return request;
  }
  const auto prompt = fields.string("prompt");
  if (!prompt) {
    fields.fail("prompt", "'prompt' (a string) or 'messages' is missing.");
  } else if (prompt->size() > kTokenizeBytesMax) {
    fields.fail("prompt", "'prompt' may have at most " + std::to_string(kTokenizeBytesMax) + " bytes, not " +
                              std::to_string(prompt->size()) + ".");
  }
  if (fields.error()) return *fields.error();
  request.input = *prompt;
  return request;
}

std::variant<DetokenizeRequest, ApiError> parse_detokenize_request(const Json& body, int32_t vocab_size) {
  FieldReader fields(body);
  DetokenizeRequest request;
  request.model = fields.string("model").value_or("");
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr) {
    fields.fail("tokens", "'tokens' (an array of token ids) is missing.");
  } else if (tokens->is_array() && tokens->empty()) {
    // Nothing stands for nothing.
  } else if (tokens->is_array() && tokens->size() > kDetokenizeTokensMax) {
    fields.fail("tokens", "'tokens' may hold at most " + std::to_string(kDetokenizeTokensMax) + " tokens, not " +
                              std::to_string(tokens->size()) + ".");
  } else if (auto list = read_token_list(fields, "tokens", *tokens, vocab_size)) {
    request.tokens = std::move(*list);
  }
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace twostroke::openai
