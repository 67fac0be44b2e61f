// SymbolMerger: joins neighbouring symbols of a word, best pair first, until no pair can be joined.
//
// Byte-pair encoding and SentencePiece's merges are the same procedure with another notion of "best": the pair of
// lowest rank is joined first, and of equal ones the leftmost. Pairs wait in a heap and symbols form a linked list, so
// a word of n symbols takes O(n log n) whatever it holds; a pair that changed while it waited is dropped when it comes
// up.
//
// Thread-safety: one user at a time. Reuse an object: its memory is kept from word to word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/token.h"

namespace twostroke {

struct Symbol {
  TokenId id;      // -1 when the vocabulary has no token for it
  uint32_t begin;  // its bytes are [begin, begin + size) of the text; size 0 means joined into a symbol to its left
  uint32_t size;
  int32_t prev;  // neighbours; -1 at the ends
  int32_t next;
};

struct Merge {
  uint32_t rank = 0;
  TokenId id = -1;  // the joined symbol's token; -1: this pair is never joined
};

class SymbolMerger {
 public:
  void clear() { symbols_.clear(); }

  // Appends a symbol of `size` >= 1 bytes.
  void add(TokenId id, uint32_t size) {
    const int32_t index = static_cast<int32_t>(symbols_.size());
    const uint32_t begin = index == 0 ? 0 : symbols_.back().begin + symbols_.back().size;
    if (index > 0) symbols_.back().next = index;
    symbols_.push_back({id, begin, size, index - 1, -1});
  }

  // Joins until nothing is left to join. `lookup(left, right)` returns the Merge of two neighbours.
  template <typename Lookup>
  void run(const Lookup& lookup) {
    queue_.clear();
    for (int32_t left = 0; left + 1 < static_cast<int32_t>(symbols_.size()); ++left) consider(left, lookup);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), waits_behind);
      const Candidate best = queue_.back();
      queue_.pop_back();
      Symbol& left = symbols_[best.left];
      Symbol& right = symbols_[best.right];
      if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
      left.id = best.id;
      left.size = best.size;
      left.next = right.next;
      right.size = 0;
      if (left.next >= 0) symbols_[left.next].prev = best.left;
      if (left.prev >= 0) consider(left.prev, lookup);
      if (left.next >= 0) consider(best.left, lookup);
    }
  }

  // Calls `visit(symbol)` for each remaining symbol, from left to right.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[i].next) visit(symbols_[i]);
  }

 private:
  struct Candidate {
    uint32_t rank;
    int32_t left;
    int32_t right;
    uint32_t size;
    TokenId id;
  };

  static bool waits_behind(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  }

  // Queues the symbol `left` and its right neighbour, which must exist, if they can be joined.
  template <typename Lookup>
  void consider(int32_t left, const Lookup& lookup) {
    const int32_t right = symbols_[left].next;
    const Merge merge = lookup(symbols_[left], symbols_[right]);
    if (merge.id < 0) return;
    queue_.push_back({merge.rank, left, right, symbols_[left].size + symbols_[right].size, merge.id});
    std::push_heap(queue_.begin(), queue_.end(), waits_behind);
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;
};

}  // namespace twostroke
