#include "scheduler/blocks/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "kernels/check.h"

namespace twostroke {
namespace {

// One round of the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

enum HashTag : uint64_t { kSaltTag = 1, kParentTag = 2 };

uint64_t mix_tagged(uint64_t hash, HashTag tag, uint64_t value) {
  return mix(mix(hash + tag * 0x9e3779b97f4a7c15u) ^ value);
}

}  // namespace

uint64_t hash_block(const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens) {
  uint64_t hash = mix_tagged(0, kSaltTag, scope.salt);
  hash = mix_tagged(hash, kParentTag, parent);
  for (const TokenId token : tokens) hash = (hash ^ static_cast<uint32_t>(token)) * 0x9fb21c651e98df25u ^ (hash >> 29);
  return mix(hash);
}

PrefixCache::PrefixCache(BlockPool& pool, uint32_t block_size, Hash hash)
    : pool_(pool),
      block_size_(block_size),
      hash_(hash),
      entries_(pool.total()),
      tokens_(static_cast<size_t>(pool.total()) * block_size),
      buckets_(std::bit_ceil(static_cast<size_t>(pool.total()) * 2), kNoBlock) {
  CHECK(block_size > 0);
}

std::span<const TokenId> PrefixCache::tokens_of(BlockId block) const {
  return {tokens_.data() + static_cast<size_t>(block) * block_size_, block_size_};
}

bool PrefixCache::holds(BlockId block, const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens) const {
  const Entry& entry = entries_[block];
  return entry.known && entry.parent == parent && entry.scope == scope && std::ranges::equal(tokens_of(block), tokens);
}

BlockId PrefixCache::find_hashed(uint64_t hash, const CacheScope& scope, BlockId parent,
                                 std::span<const TokenId> tokens) const {
  for (BlockId block = bucket(hash); block != kNoBlock; block = entries_[block].next) {
    if (entries_[block].hash == hash && holds(block, scope, parent, tokens)) return block;
  }
  return kNoBlock;
}

BlockId PrefixCache::find(const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens) const {
  CHECK(tokens.size() == block_size_);
  return find_hashed(hash_(scope, parent, tokens), scope, parent, tokens);
}

void PrefixCache::match(const CacheScope& scope, std::span<const TokenId> tokens, std::vector<BlockId>& blocks) const {
  BlockId parent = kNoBlock;
  for (; tokens.size() >= block_size_; tokens = tokens.subspan(block_size_)) {
    parent = find(scope, parent, tokens.first(block_size_));
    if (parent == kNoBlock) return;
    blocks.push_back(parent);
  }
}

BlockId PrefixCache::insert(const CacheScope& scope, BlockId parent, std::span<const TokenId> tokens, BlockId block) {
  CHECK(tokens.size() == block_size_);
  CHECK(!entries_[block].known, "a block is entered once");
  CHECK(parent == kNoBlock || entries_[parent].known, "a block's parent is known before it");
  const uint64_t hash = hash_(scope, parent, tokens);
  if (const BlockId twin = find_hashed(hash, scope, parent, tokens); twin != kNoBlock) return twin;

  BlockId& head = bucket(hash);
  entries_[block] = {.known = true, .parent = parent, .children = 0, .next = head, .scope = scope, .hash = hash};
  head = block;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<ptrdiff_t>(block) * block_size_);
  if (parent != kNoBlock) ++entries_[parent].children;
  ++size_;
  pool_.set_cached(block, true);
  return block;
}

bool PrefixCache::forget(BlockId block) {
  if (!entries_[block].known || entries_[block].children > 0) return false;
  remove(block);
  pool_.set_cached(block, false);
  return true;
}

void PrefixCache::evicted(BlockId block) {
  CHECK(entries_[block].known, "the pool evicted a block that the cache does not know");
  CHECK(entries_[block].children == 0, "a block was evicted before the blocks that continue it");
  remove(block);
}

void PrefixCache::remove(BlockId block) {
  Entry& entry = entries_[block];
  BlockId* link = &bucket(entry.hash);
  while (*link != block) link = &entries_[*link].next;
  *link = entry.next;
  if (entry.parent != kNoBlock) --entries_[entry.parent].children;
  entry = {};
  --size_;
}

std::string PrefixCache::check_invariants() const {
  std::vector<uint32_t> children(entries_.size(), 0);
  uint32_t known = 0;
  for (BlockId block = 0; block < entries_.size(); ++block) {
    const Entry& entry = entries_[block];
    if (!entry.known) continue;
    ++known;
    const std::string name = "cache entry of block " + std::to_string(block);
    if (hash_(entry.scope, entry.parent, tokens_of(block)) != entry.hash) return name + " has changed since it entered";
    if (find_hashed(entry.hash, entry.scope, entry.parent, tokens_of(block)) != block) return name + " is not found";
    if (entry.parent == kNoBlock) continue;
    if (!entries_[entry.parent].known) return name + " has lost its parent";
    if (entries_[entry.parent].scope != entry.scope) return name + " has a parent of another scope";
    if (pool_.references(block) > pool_.references(entry.parent)) return name + " is held by more than its parent";
    ++children[entry.parent];
  }
  if (known != size_) return "the count of cache entries is wrong";
  for (BlockId block = 0; block < entries_.size(); ++block) {
    if (entries_[block].children != children[block]) {
      return "cache entry of block " + std::to_string(block) + " counts its children wrongly";
    }
  }
  return {};
}

}  // namespace twostroke
