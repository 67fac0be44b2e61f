// ChatRequest: the body of POST /v1/chat/completions, checked, with its messages in the shape that templates expect.
#pragma once

#include <string>
#include <variant>

#include "server/openai/generation_options.h"

namespace twostroke::openai {

constexpr size_t kMessagesMax = 4096;

struct ChatRequest {
  std::string model;  // "" when the client named none
  GenerationOptions options;
  // [{role, content (string or null), ...}]: text parts joined by line feeds, arguments of tool calls parsed into
  // objects, further fields of a message kept.
  Json messages;
  Json template_kwargs;  // chat_template_kwargs: an object, maybe empty
};

std::variant<ChatRequest, ApiError> parse_chat_request(const Json& body, int32_t vocab_size);

}  // namespace twostroke::openai
