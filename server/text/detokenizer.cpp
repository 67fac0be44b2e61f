#include "server/text/detokenizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/text/tokenizer.h"
#include "server/text/utf8.h"

namespace twostroke {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool at_start, bool skip_special, std::span<const TokenId> shown)
    : tokenizer_(tokenizer),
      strip_space_(at_start && tokenizer.strips_leading_space()),
      skip_special_(skip_special),
      shown_(shown) {}

std::string Detokenizer::push(TokenId token) {
  const bool special = !skip_special_ || std::binary_search(shown_.begin(), shown_.end(), token);
  std::string_view piece = tokenizer_.piece(token, special);
  if (piece.empty()) return {};
  // A special token that is written out is no dummy space, and what follows it keeps its own.
  if (std::exchange(strip_space_, false) && piece.front() == ' ') piece.remove_prefix(1);
  pending_.append(piece);
  size_t incomplete = 0;
  std::string text = utf8_replace_invalid(pending_, &incomplete);
  pending_.erase(0, pending_.size() - incomplete);
  return text;
}

std::string Detokenizer::finish() { return utf8_replace_invalid(std::exchange(pending_, {})); }

}  // namespace twostroke
