#include "server/text/reply/call_grammar.h"

#include <algorithm>

namespace twostroke::reply {

std::vector<MarkedPiece> split_control_tokens(std::string_view text, const Tokenizer& tokenizer) {
  constexpr size_t kTokenBytesMax = 64;
  std::vector<MarkedPiece> pieces;
  for (size_t begin = 0; begin < text.size();) {
    TokenId token = -1;
    size_t size = std::min(text.size() - begin, kTokenBytesMax);
    for (; size > 1; --size) {
      const TokenId found = tokenizer.find(text.substr(begin, size));
      if (found < 0 || !tokenizer.is_control(found)) continue;
      token = found;
      break;
    }
    if (token >= 0) {
      pieces.push_back({token, std::string(text.substr(begin, size))});
      begin += size;
      continue;
    }
    if (pieces.empty() || pieces.back().token >= 0) pieces.push_back({});
    pieces.back().text += text[begin++];
  }
  return pieces;
}

Result<std::shared_ptr<const grammar::Grammar>> make_call_grammar(const ReplyFormat& format, const ToolDemand& demand,
                                                                  const Tokenizer&) {
  return unsupported("calls of " + std::to_string(demand.tools.size()) + " tools in the form \"" + format.name +
                     "\" cannot be demanded yet");
}

}  // namespace twostroke::reply
