// MaskCache: what matchers of one grammar have found out about its positions, for all of them.
//
// A PositionMask says which tokens can be read from a position of a rule, whatever called the rule, and where in the
// tree of tokens the rule may be left; only what lies behind those places depends on the callers (position_mask.h).
//
// Bounded: when the entries take more than kBytesMax, all are forgotten, and found out again when needed.
// Thread-safety: every method may be called from any thread at once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/token.h"

namespace twostroke::grammar {

struct PositionMask {
  // The rule takes plain tokens (Forest) whatever they are, or as many of their code points as it has rounds left.
  // Then the rest of this is about the other tokens only.
  bool takes_plain = false;
  // The highest number of rounds that a token spends, of those that the rest is about.
  uint32_t rounds_max = 0;
  // Tokens that the rule itself can read: as bits when there are many, or one by one.
  std::vector<uint32_t> words;
  std::vector<TokenId> tokens;
  // Nodes that the callers decide about: the byte before each was the last of the rule. By the node's own byte:
  // [exit_begin[i], exit_begin[i + 1]) of `exits` have exit_bytes[i].
  std::vector<uint8_t> exit_bytes;
  std::vector<uint32_t> exit_begin;
  std::vector<uint32_t> exits;

  size_t bytes() const {
    return sizeof(*this) + 4 * (words.size() + tokens.size() + exits.size() + exit_begin.size()) + exit_bytes.size();
  }
};

class MaskCache {
 public:
  static constexpr size_t kBytesMax = size_t{64} << 20;

  struct Key {
    uint64_t forest;
    uint32_t position;
    uint32_t count;
    friend bool operator==(const Key&, const Key&) = default;
  };

  std::shared_ptr<const PositionMask> find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : found->second;
  }

  void insert(const Key& key, std::shared_ptr<const PositionMask> mask) {
    const std::lock_guard lock(mutex_);
    const size_t added = mask->bytes();
    if (bytes_ + added > kBytesMax) {
      entries_.clear();
      bytes_ = 0;
    }
    if (entries_.emplace(key, std::move(mask)).second) bytes_ += added;
  }

 private:
  struct Hash {
    size_t operator()(const Key& key) const {
      uint64_t value = key.forest * 0x9E3779B97F4A7C15u ^ (uint64_t{key.position} << 32 | key.count);
      value = (value ^ value >> 29) * 0xBF58476D1CE4E5B9u;
      return static_cast<size_t>(value ^ value >> 32);
    }
  };

  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const PositionMask>, Hash> entries_;
  size_t bytes_ = 0;
};

}  // namespace twostroke::grammar
