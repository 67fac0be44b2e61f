// SpecialTokens: finds special tokens that are written out in a text.
//
// At each position the longest one wins, from left to right (as in Hugging Face's tokenizers, `leftmost-longest`). A
// walk through a trie: the cost is the text's length times at most the longest special token, however many there are.
//
// Thread-safety: immutable after the last add().
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/token.h"

namespace twostroke {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

class SpecialTokens {
 public:
  struct Token {
    TokenId id = -1;
    bool anywhere = false;  // also recognised in text that is not trusted (a user-defined token)
    bool rstrip = false;    // takes the whitespace to its right with it
  };
  struct Match {
    Token token;
    size_t begin;
    size_t end;
  };

  // `text` is not empty and was not added before.
  void add(std::string_view text, Token token);

  // All matches in `text`, in order. A token that is not `anywhere` counts only where all its bytes lie in one of the
  // `trusted` ranges, which are sorted and do not touch each other.
  std::vector<Match> find(std::string_view text, std::span<const TextRange> trusted) const;

 private:
  struct Node {
    Token token;                        // id -1: no token ends here
    std::map<char, uint32_t> children;  // by the next byte
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> starts_ = std::vector<bool>(256);  // first bytes of all tokens
};

}  // namespace twostroke
