// BlockPool: who holds which KV block. It counts ids and references; it knows neither device memory nor requests.
//
// A block is in exactly one of three states:
//
//     free  --allocate-->  referenced  --release to 0, not cached-->  free
//                             |  ^
//        release to 0, cached v  | acquire (a prefix hit)
//                           cached  --evict (least recently used first)-->  free
//
//     free + cached + referenced == total, always.
//
// "Cached" means: no sequence holds it, but the prefix cache knows its contents (PrefixCache calls set_cached). A
// cached block may be evicted at any time by allocate(); the eviction is reported, so that the prefix cache forgets it.
//
// Thread-safety: step thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/step.h"

namespace twostroke {

class BlockPool {
 public:
  // `on_evict(block)` is called when a cached block is taken for other use, before allocate() returns it.
  BlockPool(uint32_t block_count, std::function<void(BlockId)> on_evict);

  uint32_t total() const;
  uint32_t free() const;        // holding nothing
  uint32_t cached() const;      // unreferenced, contents known to the prefix cache
  uint32_t referenced() const;  // held by at least one sequence
  uint32_t available() const { return free() + cached(); }

  // A block with one reference; the least recently released cached one when none is free. Requires available() > 0.
  BlockId allocate();
  // One more reference to a referenced or cached block.
  void acquire(BlockId block);
  // One reference less. A block without references becomes cached (if marked) as the most recently used, or free.
  // Release a sequence's blocks tail first, so that a chain's tail is evicted before its head.
  void release(BlockId block);

  uint32_t references(BlockId block) const;
  // Marks whether the prefix cache knows the contents of a referenced block; or forgets those of a cached one, freeing
  // it.
  void set_cached(BlockId block, bool cached);

  // Empty when all is well; otherwise what is broken. For tests, after every step.
  std::string check_invariants() const;

 private:
  struct Entry {
    uint32_t references = 0;
    bool cached = false;
    // The list of unreferenced cached blocks, least recently used first.
    BlockId previous = 0;
    BlockId next = 0;
  };
  void unlink(BlockId block);
  void append(BlockId block);

  std::vector<Entry> entries_;  // one more than blocks: the last is the list's sentinel
  std::vector<BlockId> free_;
  uint32_t cached_count_ = 0;  // length of the list
  std::function<void(BlockId)> on_evict_;
};

}  // namespace twostroke
