// PieceCache: the tokens of pieces of text that were encoded lately.
//
// Within a piece byte-level BPE looks up a pair of tokens or two for every byte, each in memory that nothing else keeps
// in the processor's caches. Most pieces are words that come again and again: here one costs a hash and one cache line,
// whether it is one token or several. What it holds was put in by the one who encodes, so it is never wrong, whatever
// the rules are; a piece that it lacks is encoded and takes the place of another.
//
// Bounded: kSlots cache lines, allocated once (1 MiB); a piece has one place, and one that is longer than
// kPieceBytesMax or gives more than kTokensMax tokens is not held. Text made to miss costs its encoding and one write
// per piece.
//
// Thread-safety: thread-safe and without locks: find() only reads, and never waits; an insert() that meets another one
// in its slot is dropped. Each slot is a sequence lock whose data are atomic too (H.-J. Boehm, "Can Seqlocks Get Along
// With Programming Language Memory Models?", MSPC 2012): every word is written by a release store and read by an
// acquire load, so that a reader that saw any word of a later write also sees that the slot's state has changed.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "kernels/token.h"

namespace twostroke {

class PieceCache {
 public:
  static constexpr size_t kSlots = 16384;
  static constexpr size_t kPieceBytesMax = 24;
  static constexpr size_t kTokensMax = 8;

  // A piece as the cache compares it, with its place; made once for find() and insert().
  class Key {
   public:
    explicit Key(std::string_view piece = {}) : size_(piece.size() <= kPieceBytesMax ? piece.size() : 0) {
      piece.copy(reinterpret_cast<char*>(words_.data()), size_);
      uint64_t hash = 0;
      for (const uint64_t word : words_) {
        hash = (hash ^ word) * 0x9E3779B97F4A7C15;  // Fibonacci hashing (Knuth, TAOCP 6.4): the high bits are mixed,
        hash ^= hash >> 32;                         // and here they reach the low ones for the next word
      }
      slot_ = static_cast<size_t>(hash) & (kSlots - 1);
    }

   private:
    friend class PieceCache;
    std::array<uint64_t, kPieceBytesMax / 8> words_{};  // the piece's bytes, then zeros
    size_t size_;                                       // 0: the piece is empty or too long, and not held
    size_t slot_;
  };

  PieceCache() : slots_(std::make_unique<Slot[]>(kSlots)) {}

  // Starts to bring what find() reads into the processor's caches. Asked for a few pieces ahead, the waits overlap.
  void prefetch(const Key& key) const { __builtin_prefetch(&slots_[key.slot_]); }

  // Appends the tokens of the piece to `out`; false, and `out` as it was, when the cache does not hold them.
  bool find(const Key& key, std::vector<TokenId>& out) const {
    const Slot& slot = slots_[key.slot_];
    const uint64_t state = slot.state.load(std::memory_order_acquire);
    if ((state & kBeingWritten) != 0 || size_of(state) != key.size_ || key.size_ == 0) return false;
    for (size_t i = 0; i < key.words_.size(); ++i) {
      if (slot.piece[i].load(std::memory_order_acquire) != key.words_[i]) return false;
    }
    Tokens tokens;
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = slot.tokens[i].load(std::memory_order_acquire);
    if (slot.state.load(std::memory_order_relaxed) != state) return false;
    const auto ids = std::bit_cast<std::array<TokenId, kTokensMax>>(tokens);
    for (size_t i = 0; i < count_of(state); ++i) out.push_back(ids[i]);
    return true;
  }

  // Holds `ids` as the tokens of the piece from now on, if it can.
  void insert(const Key& key, std::span<const TokenId> ids) {
    if (key.size_ == 0 || ids.size() > kTokensMax) return;
    Slot& slot = slots_[key.slot_];
    uint64_t state = slot.state.load(std::memory_order_relaxed);
    if ((state & kBeingWritten) != 0) return;
    if (!slot.state.compare_exchange_strong(state, state | kBeingWritten, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
      return;
    }
    Tokens tokens{};
    std::memcpy(tokens.data(), ids.data(), ids.size_bytes());
    for (size_t i = 0; i < key.words_.size(); ++i) slot.piece[i].store(key.words_[i], std::memory_order_release);
    for (size_t i = 0; i < tokens.size(); ++i) slot.tokens[i].store(tokens[i], std::memory_order_release);
    const uint64_t version = (state + kOneWrite) & kVersion;
    slot.state.store(version | uint64_t{key.size_} << kSizeShift | uint64_t{ids.size()} << kCountShift,
                     std::memory_order_release);
  }

 private:
  using Tokens = std::array<uint64_t, kTokensMax * sizeof(TokenId) / 8>;

  // A slot's state: a bit while it is written, how often it was written, and the sizes of what it holds.
  static constexpr uint64_t kBeingWritten = 1;
  static constexpr uint64_t kOneWrite = 2;
  static constexpr int kSizeShift = 48;
  static constexpr int kCountShift = 56;
  static constexpr uint64_t kVersion = (uint64_t{1} << kSizeShift) - kOneWrite;
  static size_t size_of(uint64_t state) { return state >> kSizeShift & 0xFF; }
  static size_t count_of(uint64_t state) { return state >> kCountShift; }

  struct alignas(64) Slot {
    std::atomic<uint64_t> state = 0;  // 0: empty; no piece has a size of 0
    std::array<std::atomic<uint64_t>, kPieceBytesMax / 8> piece;
    std::array<std::atomic<uint64_t>, std::tuple_size_v<Tokens>> tokens;
  };
  static_assert(sizeof(Slot) == 64 && std::atomic<uint64_t>::is_always_lock_free);

  std::unique_ptr<Slot[]> slots_;
};

}  // namespace twostroke
