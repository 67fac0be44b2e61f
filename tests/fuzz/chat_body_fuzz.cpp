// The body of POST /v1/chat/completions: what is accepted is in the shape that templates expect.
#include <cstdint>
#include <optional>

#include "body_fuzz.h"
#include "server/openai/completions/chat_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke::openai;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto request = read_body<ChatRequest>(text, parse_chat_request);
  if (!request) return 0;
  CHECK(request->messages.is_array() && !request->messages.empty() && request->messages.size() <= kMessagesMax);
  for (const Json& message : request->messages) {
    CHECK(message["role"].is_string());
    CHECK(!message.contains("content") || message["content"].is_string() || message["content"].is_null());
  }
  CHECK(request->template_kwargs.is_object());
  CHECK(request->options.n >= 1);
  return 0;
}
