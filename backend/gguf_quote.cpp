#include "backend/gguf_quote.h"

namespace twostroke {

std::string quote(std::string_view text) {
  constexpr size_t kShownMax = 80;
  std::string out = "'";
  for (char c : text.substr(0, kShownMax)) out += c >= 0x20 && c < 0x7f ? c : '?';
  out += text.size() > kShownMax ? "...'" : "'";
  return out;
}

}  // namespace twostroke
