#include "scheduler/blocks/prefix_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <set>

namespace twostroke {

// Breaks the cache's own records.
struct PrefixCacheTestPeer {
  static TokenId& token(PrefixCache& cache, size_t i) { return cache.tokens_[i]; }
  static uint32_t& children(PrefixCache& cache, BlockId block) { return cache.entries_[block].children; }
  static void lose(PrefixCache& cache, BlockId block) { cache.entries_[block].known = false; }
};

namespace {

using ::testing::ElementsAre;

constexpr uint32_t kBlockSize = 2;
constexpr CacheScope kOpen{.salt = 0};
constexpr CacheScope kTenant{.salt = 7};

uint64_t constant_hash(const CacheScope&, BlockId, std::span<const TokenId>) { return 42; }

struct HashChoice {
  const char* name;
  PrefixCache::Hash hash;
  friend void PrintTo(const HashChoice& choice, std::ostream* out) { *out << choice.name; }
};

class PrefixCacheTest : public ::testing::TestWithParam<HashChoice> {
 protected:
  // Enters a chain of full blocks, held by one sequence, which releases them at once, tail first.
  std::vector<BlockId> enter(const std::vector<TokenId>& tokens, const CacheScope& scope = kOpen) {
    std::vector<BlockId> blocks;
    for (size_t i = 0; i + kBlockSize <= tokens.size(); i += kBlockSize) {
      const BlockId parent = blocks.empty() ? kNoBlock : blocks.back();
      const BlockId own = pool_.allocate();
      const BlockId known = cache_.insert(scope, parent, std::span(tokens).subspan(i, kBlockSize), own);
      if (known != own) {
        pool_.acquire(known);
        pool_.release(own);
      }
      blocks.push_back(known);
    }
    for (size_t i = blocks.size(); i-- > 0;) pool_.release(blocks[i]);
    return blocks;
  }
  std::vector<BlockId> match(const std::vector<TokenId>& tokens, const CacheScope& scope = kOpen) {
    std::vector<BlockId> blocks;
    cache_.match(scope, tokens, blocks);
    return blocks;
  }
  void TearDown() override {
    EXPECT_EQ(cache_.check_invariants(), "");
    EXPECT_EQ(pool_.check_invariants(), "");
  }

  BlockPool pool_{8, [this](BlockId block) { cache_.evicted(block); }};
  PrefixCache cache_{pool_, kBlockSize, GetParam().hash};
};

// Everything must hold also when every hash collides: a hit is decided by comparing, never by the hash.
INSTANTIATE_TEST_SUITE_P(Hash, PrefixCacheTest,
                         ::testing::Values(HashChoice{"Good", &hash_block},
                                           HashChoice{"AlwaysColliding", &constant_hash}),
                         [](const auto& choice) { return choice.param.name; });

TEST_P(PrefixCacheTest, FindsTheLongestKnownBeginning) {
  const std::vector<BlockId> blocks = enter({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(match({1, 2, 3, 4, 5, 6, 7}), blocks);
  EXPECT_THAT(match({1, 2, 3, 4, 9, 9}), ElementsAre(blocks[0], blocks[1]));
  EXPECT_THAT(match({1, 2, 3}), ElementsAre(blocks[0]));
  EXPECT_THAT(match({1}), ElementsAre());
  EXPECT_THAT(match({3, 4}), ElementsAre());
}

TEST_P(PrefixCacheTest, ABlockIsKnownByEverythingBeforeIt) {
  enter({1, 2, 5, 6});
  const std::vector<BlockId> other = enter({3, 4, 5, 6});
  EXPECT_EQ(match({3, 4, 5, 6}), other);
  EXPECT_EQ(cache_.size(), 4u) << "equal tokens behind different beginnings are different blocks";
}

TEST_P(PrefixCacheTest, ScopesNeverSeeEachOther) {
  const std::vector<BlockId> open = enter({1, 2, 3, 4});
  EXPECT_THAT(match({1, 2, 3, 4}, kTenant), ElementsAre());
  const std::vector<BlockId> tenant = enter({1, 2, 3, 4}, kTenant);
  EXPECT_EQ(match({1, 2, 3, 4}, kTenant), tenant);
  EXPECT_EQ(match({1, 2, 3, 4}), open);
  EXPECT_NE(open[0], tenant[0]);
}

TEST_P(PrefixCacheTest, TheFirstOfTwoTwinsStands) {
  const std::vector<BlockId> first = enter({1, 2, 3, 4});
  EXPECT_EQ(enter({1, 2, 3, 4}), first);
  EXPECT_EQ(cache_.size(), 2u);
  EXPECT_EQ(pool_.free(), 6u) << "the twin's blocks are free";
}

TEST_P(PrefixCacheTest, EvictsTheTailOfAChainBeforeItsHead) {
  const std::vector<BlockId> blocks = enter({1, 2, 3, 4, 5, 6});
  for (int i = 0; i < 5 + 1; ++i) pool_.allocate();
  EXPECT_THAT(match({1, 2, 3, 4, 5, 6}), ElementsAre(blocks[0], blocks[1]));
  pool_.allocate();
  EXPECT_THAT(match({1, 2, 3, 4, 5, 6}), ElementsAre(blocks[0]));
  pool_.allocate();
  EXPECT_THAT(match({1, 2, 3, 4, 5, 6}), ElementsAre());
  EXPECT_EQ(cache_.size(), 0u);
}

TEST_P(PrefixCacheTest, ForgetsLeavesOnly) {
  const std::vector<BlockId> blocks = enter({1, 2, 3, 4});
  EXPECT_FALSE(cache_.forget(blocks[0])) << "another block continues it";
  EXPECT_TRUE(cache_.forget(blocks[1]));
  EXPECT_FALSE(cache_.forget(blocks[1])) << "it is not known any more";
  EXPECT_TRUE(cache_.forget(blocks[0]));
  EXPECT_EQ(pool_.free(), 8u);
}

TEST_P(PrefixCacheTest, RefusesToBeMisused) {
  const std::vector<TokenId> tokens = {1, 2};
  const BlockId known = enter(tokens)[0];
  pool_.acquire(known);
  EXPECT_DEATH(cache_.insert(kOpen, kNoBlock, tokens, known), "entered once");
  const BlockId own = pool_.allocate();
  EXPECT_DEATH(cache_.insert(kOpen, own, tokens, own), "parent is known");
  EXPECT_DEATH(cache_.evicted(own), "does not know");
}

TEST_P(PrefixCacheTest, AnEvictedParentOfAKnownBlockIsCaught) {
  const std::vector<BlockId> blocks = enter({1, 2, 3, 4});
  EXPECT_DEATH(cache_.evicted(blocks[0]), "before the blocks that continue it");
}

TEST(PrefixCacheInvariants, CatchWhatIsBroken) {
  const auto broken_by = [](void (*breaks)(PrefixCache&, BlockId parent, BlockId child)) {
    PrefixCache* evicting = nullptr;
    BlockPool pool(4, [&](BlockId block) { evicting->evicted(block); });
    PrefixCache cache(pool, 1);
    evicting = &cache;
    const BlockId parent = pool.allocate();
    const BlockId child = pool.allocate();
    cache.insert(kOpen, kNoBlock, std::vector<TokenId>{1}, parent);
    cache.insert(kOpen, parent, std::vector<TokenId>{2}, child);
    EXPECT_EQ(cache.check_invariants(), "");
    breaks(cache, parent, child);
    return cache.check_invariants();
  };
  EXPECT_THAT(
      broken_by([](PrefixCache& cache, BlockId, BlockId child) { PrefixCacheTestPeer::token(cache, child) = 9; }),
      ::testing::HasSubstr("has changed"));
  EXPECT_THAT(
      broken_by([](PrefixCache& cache, BlockId parent, BlockId) { ++PrefixCacheTestPeer::children(cache, parent); }),
      ::testing::HasSubstr("children wrongly"));
  EXPECT_THAT(broken_by([](PrefixCache& cache, BlockId parent, BlockId) { PrefixCacheTestPeer::lose(cache, parent); }),
              ::testing::HasSubstr("lost its parent"));
  EXPECT_THAT(broken_by([](PrefixCache& cache, BlockId, BlockId child) { PrefixCacheTestPeer::lose(cache, child); }),
              ::testing::HasSubstr("count of cache entries"));
}

TEST(PrefixCacheHash, DependsOnEveryPartOfTheKey) {
  const std::vector<TokenId> tokens = {1, 2};
  const std::vector<TokenId> swapped = {2, 1};
  const std::set<uint64_t> hashes = {hash_block(kOpen, kNoBlock, tokens), hash_block(kTenant, kNoBlock, tokens),
                                     hash_block(kOpen, 7, tokens), hash_block(kOpen, kNoBlock, swapped),
                                     hash_block(kOpen, 0, tokens)};
  EXPECT_EQ(hashes.size(), 5u) << "a salt of 7 and a parent of 7 are different things too";
}

}  // namespace
}  // namespace twostroke
