// PrefixCache: which KV block already holds which tokens, so that a prompt's known beginning need not be computed.
//
// Only full blocks of final tokens enter. Attention makes a block's contents depend on every token before it, so a
// block is known by its whole chain: the key is (scope, parent block, its own tokens), where the parent is the block of
// the tokens right before. The cache is thus a tree of blocks:
//
//     scope {salt 7}:  [The quick brown fox]--[jumps over the lazy]--[dog .]
//                                          \--[sat on the mat and]
//
// A hit compares the scope, the parent and every token; the hash only finds candidates. Two prompts whose hashes
// collide can therefore never see each other's blocks.
//
// Invariant: whoever holds a block holds its parent too, because sequences hold their tables from the first block on
// and take over the cache's block where a twin of theirs is known already (see insert). As a sequence releases its
// blocks tail first, a child always stands before its parent in the pool's least-recently-used order: what is evicted
// is a leaf, and no entry ever loses its parent.
//
// Ownership: the pool owns reference counts and the order of eviction, this class knows contents only. It never holds
// a reference. Its memory is fixed at construction: nothing here allocates afterwards.
// Thread-safety: step thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/step.h"
#include "kernels/token.h"
#include "scheduler/blocks/block_pool.h"

namespace twostroke {

constexpr BlockId kNoBlock = UINT32_MAX;  // the parent of a chain's first block; "not found"

// Everything besides the tokens that decides what may be shared. Each kind is a field of its own, compared as such and
// hashed under a tag of its own, so that a value of one kind cannot pass for a value of another.
struct CacheScope {
  uint64_t salt = 0;  // Request::cache_salt
  friend bool operator==(const CacheScope&, const CacheScope&) = default;
};

uint64_t hash_block(const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens);

class PrefixCache {
 public:
  using Hash = uint64_t (*)(const CacheScope&, BlockId parent, std::span<const TokenId>);

  // `pool` must outlive the cache, and its on_evict must call evicted(). `hash` is given by tests only.
  PrefixCache(BlockPool& pool, uint32_t block_size, Hash hash = &hash_block);

  // The block that holds exactly these `block_size` tokens behind `parent` in this scope, or kNoBlock.
  BlockId find(const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens) const;

  // Appends to `blocks` the longest known chain of full blocks at the beginning of `tokens`.
  void match(const CacheScope& scope, std::span<const TokenId> tokens, std::vector<BlockId>& blocks) const;

  // `block`, referenced and not yet known, holds these tokens behind `parent` (known, or kNoBlock). Returns the block
  // that stands for them from now on: `block` itself, or, when another holds the same already, that one; the caller
  // then takes a reference to it and releases its own.
  BlockId insert(const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens, BlockId block);

  // Forgets `block`, and tells the pool so. Returns false, doing nothing, when it is unknown or has known children.
  bool forget(BlockId block);

  // The pool has taken `block` for other use.
  void evicted(BlockId block);

  bool knows(BlockId block) const { return entries_[block].known; }
  uint32_t size() const { return size_; }

  // Empty when all is well; otherwise what is broken. For tests, after every step.
  std::string check_invariants() const;
  // Likewise, for one known block: that it holds these tokens behind this parent.
  bool holds(BlockId block, const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens) const;

 private:
  struct Entry {  // of the block whose id is its index
    bool known = false;
    BlockId parent = kNoBlock;
    uint32_t children = 0;
    BlockId next = kNoBlock;  // in its bucket
    CacheScope scope;
    uint64_t hash = 0;
  };
  BlockId& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  BlockId bucket(uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }
  BlockId find_hashed(uint64_t hash, const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens) const;
  std::span<const TokenId> tokens_of(BlockId block) const;
  void remove(BlockId block);

  friend struct PrefixCacheTestPeer;

  BlockPool& pool_;
  const uint32_t block_size_;
  const Hash hash_;
  std::vector<Entry> entries_;    // (blocks)
  std::vector<TokenId> tokens_;   // (blocks, block_size)
  std::vector<BlockId> buckets_;  // a power of two of them; kNoBlock where empty
  uint32_t size_ = 0;
};

}  // namespace twostroke
