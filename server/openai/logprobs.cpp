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

std::string prompt_logprobs_json(const Tokenizer& tokenizer, const std::vector<TokenId>& prompt,
                                 const std::vector<TokenScore>& scores) {
  const auto entry = [&](TokenId token, float logprob, size_t rank) {
    return '"' + std::to_string(token) + "\":{\"logprob\":" + logprob_text(logprob) +
           ",\"rank\":" + std::to_string(rank) +
           ",\"decoded_token\":" + json_string(tokenizer.piece(token, /*special=*/true)) + '}';
  };
  std::string out = "[null";
  for (size_t i = 0; i < scores.size() && i + 1 < prompt.size(); ++i) {
    const TokenScore& score = scores[i];
    out += ",{" + entry(prompt[i + 1], score.logprob, score.rank);
    for (size_t rank = 0; rank < score.top.size(); ++rank) {
      if (score.top[rank].token == prompt[i + 1]) continue;
      out += ',' + entry(score.top[rank].token, score.top[rank].logprob, rank + 1);
    }
    out += '}';
  }
  return out + ']';
}

}  // namespace twostroke::openai
