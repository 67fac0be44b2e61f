// The tree inside a TokenTrie, for those who walk it.
//
// Two trees lie one behind the other: *plain* tokens, which are whole characters of ordinary text (no control
// characters, no '"', no '\\'), and the rest. A grammar that is inside a string takes or refuses plain tokens by their
// length alone, and then walks only the second tree, which is much the smaller one.
//
// Nodes are in preorder: a node's subtree is [node, subtree_end), and so are the tokens of a subtree one range.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/token.h"
#include "server/text/grammar/token_trie.h"

namespace twostroke::grammar {

struct TrieNode {
  uint32_t subtree_end = 0;
  uint32_t tokens_begin = 0;    // of `tokens`; the next node's begin is the end
  uint32_t depth_and_byte = 0;  // depth << 8 | byte; depth is 1 for the first byte of a token

  uint32_t depth() const { return depth_and_byte >> 8; }
  uint8_t byte() const { return static_cast<uint8_t>(depth_and_byte); }
};

// One tree of tokens, or rather the two.
struct Forest {
  uint64_t id = 0;                            // no two forests of a process share it
  std::vector<TrieNode> nodes;                // and one more behind the last, which ends the range of tokens
  std::vector<TokenId> tokens;                // by node
  uint32_t rest_begin = 0;                    // nodes [0, rest_begin) are plain
  uint32_t longest_bytes = 0;                 // of all tokens
  std::vector<uint32_t> all;                  // the bit of every token that is here
  std::vector<TokenId> without_bytes;         // tokens that stand for nothing where they stand
  static constexpr uint32_t kPlainMax = 256;  // code points of a plain token at most; longer ones are among the rest
  // The bits of plain tokens of at most n code points: plain_masks[plain_index[n]], n up to kPlainMax.
  std::vector<std::vector<uint32_t>> plain_masks;
  std::vector<uint32_t> plain_index;

  uint32_t node_count() const { return static_cast<uint32_t>(nodes.size()) - 1; }
};

struct TokenTrie::Nodes {
  int32_t vocab_size = 0;
  Forest text;
  // The same for the first token of a text, where a decoder drops a leading space; empty (no nodes) where it does not.
  Forest start;
  bool has_start = false;
};

}  // namespace twostroke::grammar
