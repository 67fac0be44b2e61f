// What every compiled grammar promises, tried out on texts that it allows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/check.h"
#include "server/text/grammar/matcher.h"
#include "server/text/grammar/token_trie.h"

namespace twostroke::grammar {

// An input is a grammar, a zero byte, and decisions.
inline constexpr size_t kDecisionsMax = 24;

inline std::string_view grammar_of(std::string_view input) { return input.substr(0, input.find('\0')); }
inline std::string_view decisions_of(std::string_view input) {
  const size_t zero = input.find('\0');
  return zero == std::string_view::npos ? "\1\2\3\4\5\6\7" : input.substr(zero + 1);
}

struct Walk {
  std::string text;
  bool complete = false;  // it is a whole text of the grammar
};

// Walks through a text of the grammar: each byte of `decisions` chooses among the tokens that the mask allows. The mask
// allows exactly the tokens that accept() takes, and what was taken piece by piece is taken as a whole.
inline Walk check_grammar(const std::shared_ptr<const Grammar>& grammar, std::string_view decisions) {
  static const std::vector<std::string> pieces = {
      "a",    "b",    "ab",   "A",  "0",    "1",    "12", "9",     "-",  ".",  "e",  "{",   "}",    "{\"",
      "[",    "]",    ",",    ", ", ":",    "\": ", "\"", " ",     "  ", "\n", "\\", "\\u", "é",    "漢",
      "🙂", "\xc3", "\xa9", "x",  "true", "nu",   "ll", "2026-", "/",  "@",  "T",  "_",   "\x01", "\x7f",
  };
  static const TokenTrie trie{pieces};
  Matcher matcher(grammar);
  std::string text;
  for (const char decision : decisions.substr(0, kDecisionsMax)) {
    std::array<uint32_t, 4> mask{};
    CHECK(pieces.size() <= mask.size() * 32);
    matcher.fill_mask(trie, mask);
    std::vector<size_t> allowed;
    for (size_t token = 0; token < pieces.size(); ++token) {
      const bool in_mask = (mask[token / 32] >> token % 32 & 1) != 0;
      Matcher copy(matcher);
      CHECK(copy.accept(pieces[token]) == in_mask, pieces[token]);
      if (in_mask) allowed.push_back(token);
    }
    if (matcher.must_end()) CHECK(matcher.may_end() && allowed.empty());
    if (allowed.empty()) break;
    const std::string& piece = pieces[allowed[static_cast<unsigned char>(decision) % allowed.size()]];
    CHECK(matcher.accept(piece));
    text += piece;
  }
  Matcher whole(grammar);
  CHECK(whole.accept(text));
  CHECK(whole.may_end() == matcher.may_end() && whole.must_end() == matcher.must_end());
  return {text, whole.may_end()};
}

}  // namespace twostroke::grammar
