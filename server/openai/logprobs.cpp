#include "server/openai/logprobs.h"

#include "server/openai/json.h"

namespace twostroke::openai {
namespace {

// {"token", "logprob", "bytes"} without the closing brace.
std::string open_entry(const Tokenizer& tokenizer, TokenId token, float logprob) {
  const std::string_view bytes = tokenizer.piece(token, /*special=*/true);
  std::string out = "{\"token\":" + json_string(bytes) + ",\"logprob\":" + logprob_text(logprob) + ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(static_cast<unsigned char>(bytes[i]));
  }
  return out + ']';
}

}  // namespace

std::string logprob_entries(const Tokenizer& tokenizer, const std::vector<TokenEntry>& entries) {
  std::string out;
  for (const TokenEntry& entry : entries) {
    if (!out.empty()) out += ',';
    out += open_entry(tokenizer, entry.token, entry.logprob) + ",\"top_logprobs\":[";
    for (size_t i = 0; i < entry.top.size(); ++i) {
      if (i > 0) out += ',';
      out += open_entry(tokenizer, entry.top[i].token, entry.top[i].logprob) + '}';
    }
    out += "]}";
  }
  return out;
}

}  // namespace twostroke::openai
