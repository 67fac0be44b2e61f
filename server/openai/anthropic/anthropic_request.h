// AnthropicRequest: the body of POST /v1/messages and /v1/messages/count_tokens, as the chat request that it means.
//
// `system` becomes the first message. A user's message becomes one of the role "tool" for each tool_result in it, and
// one of the role "user" for the text between them. A final message of the assistant is continued. What is not
// supported (images, documents, server tools, ...) is refused by its name. Blocks and their members:
// anthropic-sdk-python 2.14.0, types.
#pragma once

#include <variant>

#include "server/openai/chat_translation.h"

namespace twostroke::openai {

struct AnthropicRequest {
  std::string model;
  FieldNames names;  // for errors that are found when the chat is prepared
  ChatRequest chat;
  bool shows_thinking = true;  // reasoning goes out as thinking blocks; false: it does not go out
};

std::variant<AnthropicRequest, ApiError> parse_anthropic_request(const Json& body, int32_t vocab_size);

// The same, where `max_tokens` may be absent and nothing will be generated.
std::variant<AnthropicRequest, ApiError> parse_count_tokens_request(const Json& body, int32_t vocab_size);

}  // namespace twostroke::openai
