#include "server/text/special_tokens.h"

#include "kernels/check.h"

namespace twostroke {

void SpecialTokens::add(std::string_view text, Token token) {
  CHECK(!text.empty() && token.id >= 0);
  starts_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [child, created] = nodes_[node].children.try_emplace(byte, static_cast<uint32_t>(nodes_.size()));
    node = child->second;
    if (created) nodes_.emplace_back();
  }
  CHECK(nodes_[node].token.id < 0, "a special token is added once");
  nodes_[node].token = token;
}

std::vector<SpecialTokens::Match> SpecialTokens::find(std::string_view text, std::span<const TextRange> trusted) const {
  std::vector<Match> matches;
  size_t begin = 0;
  while (begin < text.size()) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) {
      ++begin;
      continue;
    }
    while (!trusted.empty() && trusted.front().end <= begin) trusted = trusted.subspan(1);
    const size_t trusted_end = !trusted.empty() && trusted.front().begin <= begin ? trusted.front().end : begin;
    Match best{.token = {}, .begin = begin, .end = begin};
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      const auto child = nodes_[node].children.find(text[end]);
      if (child == nodes_[node].children.end()) break;
      node = child->second;
      ++end;
      const Token& token = nodes_[node].token;
      if (token.id >= 0 && (token.anywhere || end <= trusted_end)) best = {token, begin, end};
    }
    if (best.token.id >= 0) matches.push_back(best);
    begin = best.token.id >= 0 ? best.end : begin + 1;
  }
  return matches;
}

}  // namespace twostroke
