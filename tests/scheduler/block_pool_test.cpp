#include "scheduler/blocks/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace twostroke {
namespace {

using ::testing::ElementsAre;

class BlockPoolOf4 : public ::testing::Test {
 protected:
  // A referenced block whose contents are known.
  BlockId known_block() {
    const BlockId block = pool_.allocate();
    pool_.set_cached(block, true);
    return block;
  }
  void TearDown() override { EXPECT_EQ(pool_.check_invariants(), ""); }

  std::vector<BlockId> evicted_;
  BlockPool pool_{4, [this](BlockId block) { evicted_.push_back(block); }};
};

TEST_F(BlockPoolOf4, StartsWithAllBlocksFree) {
  EXPECT_EQ(pool_.total(), 4u);
  EXPECT_EQ(pool_.free(), 4u);
  EXPECT_EQ(pool_.cached() + pool_.referenced(), 0u);
}

TEST_F(BlockPoolOf4, GivesEveryBlockOnce) {
  std::vector<BlockId> blocks;
  while (pool_.available() > 0) blocks.push_back(pool_.allocate());
  EXPECT_THAT(blocks, ::testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(pool_.referenced(), 4u);
}

TEST_F(BlockPoolOf4, FreesABlockWithItsLastReference) {
  const BlockId block = pool_.allocate();
  pool_.acquire(block);
  pool_.release(block);
  EXPECT_EQ(pool_.references(block), 1u);
  EXPECT_EQ(pool_.free(), 3u);
  pool_.release(block);
  EXPECT_EQ(pool_.free(), 4u);
}

TEST_F(BlockPoolOf4, KeepsAKnownBlockAsCached) {
  const BlockId block = known_block();
  EXPECT_EQ(pool_.cached(), 0u) << "it is still referenced";
  pool_.release(block);
  EXPECT_EQ(pool_.cached(), 1u);
  EXPECT_EQ(pool_.free(), 3u);
  pool_.acquire(block);
  EXPECT_EQ(pool_.cached(), 0u);
  EXPECT_EQ(pool_.references(block), 1u);
}

TEST_F(BlockPoolOf4, UsesFreeBlocksBeforeCachedOnes) {
  pool_.release(known_block());
  for (int i = 0; i < 3; ++i) pool_.allocate();
  EXPECT_THAT(evicted_, ElementsAre());
  pool_.allocate();
  EXPECT_EQ(evicted_.size(), 1u);
}

TEST_F(BlockPoolOf4, EvictsTheLeastRecentlyReleasedBlockFirst) {
  const BlockId a = known_block();
  const BlockId b = known_block();
  const BlockId c = known_block();
  pool_.allocate();
  pool_.release(b);
  pool_.release(a);
  pool_.release(c);
  EXPECT_EQ(pool_.allocate(), b);
  EXPECT_EQ(pool_.allocate(), a);
  EXPECT_EQ(pool_.allocate(), c);
  EXPECT_THAT(evicted_, ElementsAre(b, a, c));
}

TEST_F(BlockPoolOf4, ABlockUsedAgainMovesToTheEndOfTheOrder) {
  const BlockId a = known_block();
  const BlockId b = known_block();
  pool_.allocate();
  pool_.allocate();
  pool_.release(a);
  pool_.release(b);
  pool_.acquire(a);
  pool_.release(a);
  EXPECT_EQ(pool_.allocate(), b);
}

TEST_F(BlockPoolOf4, AnEvictedBlockIsNoLongerKnown) {
  const BlockId a = known_block();
  for (int i = 0; i < 3; ++i) pool_.allocate();
  pool_.release(a);
  EXPECT_EQ(pool_.allocate(), a);
  pool_.release(a);
  EXPECT_EQ(pool_.cached(), 0u);
  EXPECT_EQ(pool_.free(), 1u);
}

TEST_F(BlockPoolOf4, ForgettingACachedBlockFreesIt) {
  const BlockId a = known_block();
  pool_.release(a);
  pool_.set_cached(a, false);
  EXPECT_EQ(pool_.free(), 4u);
  EXPECT_THAT(evicted_, ElementsAre()) << "forgetting is not evicting";
}

TEST_F(BlockPoolOf4, RefusesToBeMisused) {
  const BlockId block = pool_.allocate();
  pool_.release(block);
  EXPECT_DEATH(pool_.release(block), "nobody holds");
  EXPECT_DEATH(pool_.acquire(block), "free block");
  EXPECT_DEATH(pool_.set_cached(block, true), "referenced");
  while (pool_.available() > 0) pool_.allocate();
  EXPECT_DEATH(pool_.allocate(), "exhausted");
}

TEST(BlockPool, ConservesBlocksUnderRandomUse) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    const auto total = static_cast<uint32_t>(1 + random() % 9);
    std::vector<bool> known(total);
    BlockPool pool(total, [&](BlockId block) {
      ASSERT_TRUE(known[block]);
      known[block] = false;
    });
    std::vector<BlockId> held;  // one entry per reference
    for (int i = 0; i < 300; ++i) {
      const uint64_t action = random() % 4;
      if (action == 0 && pool.available() > 0) held.push_back(pool.allocate());
      if (action == 1 && !held.empty()) {
        const size_t which = random() % held.size();
        pool.release(held[which]);
        held.erase(held.begin() + static_cast<ptrdiff_t>(which));
      }
      if (action == 2 && !held.empty()) {
        const BlockId block = held[random() % held.size()];
        known[block] = random() % 2 == 0;
        pool.set_cached(block, known[block]);
      }
      const auto block = static_cast<BlockId>(random() % total);
      if (action == 3 && (known[block] || pool.references(block) > 0)) {
        pool.acquire(block);
        held.push_back(block);
      }
      ASSERT_EQ(pool.check_invariants(), "");
      ASSERT_EQ(pool.free() + pool.cached() + pool.referenced(), total);
    }
  }
}

}  // namespace
}  // namespace twostroke
