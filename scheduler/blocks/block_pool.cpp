#include "scheduler/blocks/block_pool.h"

#include <utility>

#include "kernels/check.h"

namespace twostroke {

BlockPool::BlockPool(uint32_t block_count, std::function<void(BlockId)> on_evict)
    : entries_(block_count + 1), on_evict_(std::move(on_evict)) {
  CHECK(block_count > 0, "a pool needs blocks");
  const BlockId sentinel = block_count;
  entries_[sentinel].previous = entries_[sentinel].next = sentinel;
  // Handed out from the back: block 0 first.
  free_.reserve(block_count);
  for (BlockId block = block_count; block-- > 0;) free_.push_back(block);
}

uint32_t BlockPool::total() const { return static_cast<uint32_t>(entries_.size() - 1); }
uint32_t BlockPool::free() const { return static_cast<uint32_t>(free_.size()); }
uint32_t BlockPool::cached() const { return cached_count_; }
uint32_t BlockPool::referenced() const { return total() - free() - cached(); }

BlockId BlockPool::allocate() {
  CHECK(available() > 0, "allocate() from an exhausted pool");
  BlockId block;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    block = entries_[total()].next;
    unlink(block);
    entries_[block].cached = false;
    on_evict_(block);
  }
  entries_[block].references = 1;
  return block;
}

void BlockPool::acquire(BlockId block) {
  CHECK(block < total());
  Entry& entry = entries_[block];
  CHECK(entry.references > 0 || entry.cached, "acquire() of a free block");
  if (entry.references == 0) unlink(block);
  ++entry.references;
}

void BlockPool::release(BlockId block) {
  CHECK(block < total());
  Entry& entry = entries_[block];
  CHECK(entry.references > 0, "release() of a block that nobody holds");
  if (--entry.references > 0) return;
  if (entry.cached) {
    append(block);
  } else {
    free_.push_back(block);
  }
}

uint32_t BlockPool::references(BlockId block) const {
  CHECK(block < total());
  return entries_[block].references;
}

void BlockPool::set_cached(BlockId block, bool cached) {
  CHECK(block < total());
  Entry& entry = entries_[block];
  CHECK(entry.references > 0 || (entry.cached && !cached), "only a referenced block's contents can become known");
  if (entry.references == 0) {
    unlink(block);
    free_.push_back(block);
  }
  entry.cached = cached;
}

void BlockPool::unlink(BlockId block) {
  const Entry& entry = entries_[block];
  entries_[entry.previous].next = entry.next;
  entries_[entry.next].previous = entry.previous;
  --cached_count_;
}

void BlockPool::append(BlockId block) {
  const BlockId sentinel = total();
  Entry& entry = entries_[block];
  entry.previous = entries_[sentinel].previous;
  entry.next = sentinel;
  entries_[entry.previous].next = block;
  entries_[sentinel].previous = block;
  ++cached_count_;
}

std::string BlockPool::check_invariants() const {
  enum State : uint8_t { kUnseen, kFree, kListed };
  std::vector<State> seen(total(), kUnseen);
  for (const BlockId block : free_) {
    if (block >= total()) return "free block " + std::to_string(block) + " does not exist";
    if (seen[block] != kUnseen) return "block " + std::to_string(block) + " is free twice";
    if (entries_[block].references > 0) return "free block " + std::to_string(block) + " has references";
    if (entries_[block].cached) return "free block " + std::to_string(block) + " is marked as cached";
    seen[block] = kFree;
  }
  uint32_t listed = 0;
  BlockId previous = total();
  for (BlockId block = entries_[total()].next; block != total(); block = entries_[block].next) {
    if (block > total() || seen[block] != kUnseen) return "the list of cached blocks is broken";
    if (entries_[block].previous != previous) return "the list of cached blocks is broken backwards";
    if (entries_[block].references > 0) return "cached block " + std::to_string(block) + " has references";
    if (!entries_[block].cached) return "listed block " + std::to_string(block) + " is not marked as cached";
    seen[block] = kListed;
    previous = block;
    ++listed;
  }
  if (listed != cached_count_) return "the count of cached blocks is wrong";
  for (BlockId block = 0; block < total(); ++block) {
    if (seen[block] == kUnseen && entries_[block].references == 0) {
      return "block " + std::to_string(block) + " is lost: not free, cached or referenced";
    }
  }
  return {};
}

}  // namespace twostroke
