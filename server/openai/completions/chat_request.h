// ChatRequest: the body of POST /v1/chat/completions, checked, with its messages in the shape that templates expect.
#pragma once

#include <string>
#include <variant>

#include "server/openai/generation_options.h"
#include "server/openai/tool_options.h"

namespace twostroke::openai {

constexpr size_t kMessagesMax = 4096;

struct ChatRequest {
  std::string model;  // "" when the client named none
  GenerationOptions options;
  // [{role, content (string or null), ...}]: text parts joined by line feeds, arguments of tool calls parsed into
  // objects, further fields of a message kept.
  Json messages;
  // What else the template gets: chat_template_kwargs, `documents` and `reasoning_effort`. An object, maybe empty.
  Json template_kwargs;
  ToolOptions tools;
  bool add_generation_prompt = true;    // false: the template ends behind the last message
  bool continue_final_message = false;  // the prompt ends within the last message, which the answer goes on with
  bool echo = false;                    // the answer begins with what the last message, an assistant's, says
};

// Beyond the types: an assistant's message without content but with tool calls keeps null, as templates expect it;
// without calls its content is "".
std::variant<ChatRequest, ApiError> parse_chat_request(const Json& body, int32_t vocab_size);

}  // namespace twostroke::openai
