// The body of POST /v1/completions: what is accepted is within its bounds.
#include <cstdint>
#include <optional>

#include "body_fuzz.h"
#include "server/openai/completions/completion_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke::openai;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto request = read_body<CompletionRequest>(text, parse_completion_request);
  if (!request) return 0;
  CHECK(!request->prompts.empty() && request->prompts.size() <= kPromptsMax);
  CHECK(request->prompts.size() * request->options.n <= kTotalChoicesMax);
  for (const auto& prompt : request->prompts) {
    const auto* ids = std::get_if<std::vector<twostroke::TokenId>>(&prompt);
    if (ids == nullptr) continue;
    CHECK(!ids->empty());
    for (const twostroke::TokenId id : *ids) CHECK(id >= 0 && id < 1000);
  }
  return 0;
}
