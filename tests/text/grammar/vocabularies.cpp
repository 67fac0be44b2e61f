#include "tests/text/grammar/vocabularies.h"

#include <gtest/gtest.h>

#include "server/text/grammar/gbnf.h"

namespace twostroke::grammar {

std::vector<std::string> byte_vocabulary(const std::vector<std::string>& pieces) {
  std::vector<std::string> all{""};
  for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
  all.insert(all.end(), pieces.begin(), pieces.end());
  return all;
}

std::shared_ptr<const Grammar> gbnf(std::string_view text) {
  auto grammar = compile_gbnf(text);
  if (!grammar.ok()) {
    ADD_FAILURE() << grammar.status().message() << "\n" << text.substr(0, 500);
    return nullptr;
  }
  return *grammar;
}

bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  Matcher matcher(grammar);
  return matcher.accept(text) && matcher.may_end();
}

std::vector<uint32_t> mask_of(Matcher& matcher, const TokenTrie& trie, Matcher::Place place) {
  std::vector<uint32_t> mask((static_cast<size_t>(trie.vocab_size()) + 31) / 32);
  matcher.fill_mask(trie, mask, place);
  return mask;
}

std::vector<uint32_t> tried_mask_of(const Matcher& matcher, const std::vector<std::string>& pieces) {
  std::vector<uint32_t> mask((pieces.size() + 31) / 32);
  for (size_t token = 0; token < pieces.size(); ++token) {
    if (pieces[token].empty()) continue;
    Matcher copy(matcher);
    if (copy.accept_token(static_cast<TokenId>(token), pieces[token])) mask[token / 32] |= uint32_t{1} << token % 32;
  }
  return mask;
}

std::string difference(const std::vector<uint32_t>& mask, const std::vector<uint32_t>& tried,
                       const std::vector<std::string>& pieces) {
  std::string text;
  for (size_t token = 0; token < pieces.size(); ++token) {
    const bool in_mask = mask[token / 32] >> token % 32 & 1, in_tried = tried[token / 32] >> token % 32 & 1;
    if (in_mask != in_tried) text += (in_mask ? " only allowed: '" : " only possible: '") + pieces[token] + "'";
  }
  return text;
}

}  // namespace twostroke::grammar
