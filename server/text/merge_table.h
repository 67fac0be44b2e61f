// MergeTable: from a pair of tokens to what they are joined to. Built once, then only read.
//
// An open-addressing hash table: encoding looks up a pair or two for every byte of a text, mostly ones that are absent.
//
// Thread-safety: immutable after the last insert().
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/check.h"
#include "kernels/token.h"
#include "server/text/symbol_merge.h"

namespace twostroke {

class MergeTable {
 public:
  // For at most `count` pairs; at most half of the slots are ever taken.
  explicit MergeTable(size_t count = 0) : slots_(std::bit_ceil(2 * count + 2)) {}

  // Adds a pair; one that is there already stays as it is.
  void insert(TokenId left, TokenId right, Merge merge) {
    CHECK(left >= 0 && right >= 0 && merge.id >= 0 && 2 * ++count_ <= slots_.size());
    Slot& slot = slots_[index_of(left, right)];
    if (slot.left < 0) slot = {left, right, merge};
  }

  // The pair's merge; its id is -1 when the pair is not joined.
  Merge find(TokenId left, TokenId right) const { return slots_[index_of(left, right)].merge; }

 private:
  struct Slot {
    TokenId left = -1;
    TokenId right = -1;
    Merge merge;
  };

  // The slot of the pair, or the free one where it belongs.
  size_t index_of(TokenId left, TokenId right) const {
    const uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    const uint64_t hash = key * 0x9E3779B97F4A7C15;  // Fibonacci hashing (Knuth, TAOCP 6.4): the high bits are mixed
    size_t index = static_cast<size_t>(hash >> 32) & (slots_.size() - 1);
    while (slots_[index].left >= 0 && (slots_[index].left != left || slots_[index].right != right)) {
      index = (index + 1) & (slots_.size() - 1);
    }
    return index;
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace twostroke
