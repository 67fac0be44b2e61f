// CompletionRequest: the body of POST /v1/completions, checked.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/token.h"
#include "server/openai/generation_options.h"

namespace twostroke::openai {

// Prompts of one request, and choices (prompts times n) that it may ask for.
constexpr size_t kPromptsMax = 128;
constexpr size_t kTotalChoicesMax = 128;
constexpr uint32_t kCompletionTokensDefault = 16;

struct CompletionRequest {
  std::string model;  // "" when the client named none
  GenerationOptions options;
  bool echo = false;  // the text begins with the prompt
  // Each is text or token ids, as the client sent it.
  std::vector<std::variant<std::string, std::vector<TokenId>>> prompts;
};

std::variant<CompletionRequest, ApiError> parse_completion_request(const Json& body, int32_t vocab_size);

}  // namespace twostroke::openai
