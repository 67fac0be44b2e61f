#include "server/text/chat_prompt.h"

#include <string>

namespace twostroke {

std::vector<TokenId> encode_chat_prompt(const Tokenizer& tokenizer, std::span<const jinja::Span> spans) {
  std::string text;
  std::vector<TextRange> trusted;
  for (const jinja::Span& span : spans) {
    const size_t begin = text.size();
    text += span.text;
    if (span.from_template) trusted.push_back({begin, text.size()});
  }
  std::vector<TokenId> ids = tokenizer.encode_marked(text, trusted, /*add_special=*/false);
  if (tokenizer.adds_bos() && (ids.empty() || ids.front() != tokenizer.bos())) ids.insert(ids.begin(), tokenizer.bos());
  return ids;
}

}  // namespace twostroke
