// Walking a range of a token tree with a parser.
#pragma once

#include <cstdint>
#include <vector>

#include "server/text/grammar/chart.h"
#include "server/text/grammar/token_trie_nodes.h"

namespace twostroke::grammar {

// Visits the nodes of [begin, end) that can be read from `set`, which are whole subtrees of one depth: calls
// visit(node, set behind it) for each, parents first. `path` is memory that calls may share.
template <typename Visit>
void walk(Chart& chart, const Forest& forest, uint32_t begin, uint32_t end, uint32_t set, std::vector<uint32_t>& path,
          Visit visit) {
  if (begin >= end) return;
  const uint32_t base = forest.nodes[begin].depth() - 1;
  if (path.size() < forest.longest_bytes + 1) path.resize(forest.longest_bytes + 1);
  path[0] = set;
  for (uint32_t i = begin; i < end;) {
    const TrieNode& node = forest.nodes[i];
    const uint32_t depth = node.depth() - base;
    const uint32_t next = chart.step(path[depth - 1], node.byte());
    if (next == Chart::kDead) {
      i = node.subtree_end;
      continue;
    }
    path[depth] = next;
    visit(i, next);
    ++i;
  }
}

inline void set_token_bits(const Forest& forest, uint32_t node, std::span<uint32_t> mask) {
  for (uint32_t i = forest.nodes[node].tokens_begin; i < forest.nodes[node + 1].tokens_begin; ++i) {
    const auto token = static_cast<uint32_t>(forest.tokens[i]);
    mask[token / 32] |= uint32_t{1} << (token % 32);
  }
}

}  // namespace twostroke::grammar
