// TokenizeRequest and DetokenizeRequest: the bodies of POST /tokenize and /detokenize, checked. The shapes are vLLM's.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/token.h"
#include "server/openai/completions/chat_request.h"

namespace twostroke::openai {

constexpr size_t kTokenizeBytesMax = 1 << 20;       // of a text: more than any context takes, less than a second's work
constexpr size_t kDetokenizeTokensMax = 1 << 18;    // of a list of tokens
constexpr size_t kDetokenizedBytesMax = 16U << 20;  // of what they stand for

struct TokenizeRequest {
  std::string model;  // "" when the client named none
  // Text, or messages as for a chat completion.
  std::variant<std::string, ChatRequest> input;
  bool add_special_tokens = true;  // of a text: BOS and EOS as the model's file asks
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};

std::variant<TokenizeRequest, ApiError> parse_tokenize_request(const Json& body, int32_t vocab_size);
std::variant<DetokenizeRequest, ApiError> parse_detokenize_request(const Json& body, int32_t vocab_size);

}  // namespace twostroke::openai
