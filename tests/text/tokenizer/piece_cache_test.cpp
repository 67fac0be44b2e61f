#include "server/text/piece_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace twostroke {
namespace {

using Ids = std::vector<TokenId>;

// Text and tokens of one size for all numbers below a million.
std::string numbered_piece(int number) { return "piece" + std::to_string(1'000'000 + number); }
Ids numbered_ids(int number) {
  Ids ids(1 + static_cast<size_t>(number) % PieceCache::kTokensMax);
  std::iota(ids.begin(), ids.end(), 100 * number);
  return ids;
}

bool holds(const PieceCache& cache, std::string_view piece, const Ids& expected) {
  Ids out = {-7};
  if (!cache.find(PieceCache::Key(piece), out)) {
    EXPECT_EQ(out, Ids{-7}) << piece;
    return false;
  }
  EXPECT_EQ(out.front(), -7) << "tokens are appended";
  EXPECT_EQ(Ids(out.begin() + 1, out.end()), expected) << piece;
  return true;
}

TEST(PieceCache, HoldsTheTokensOfAPieceUntilItGetsOthers) {
  PieceCache cache;
  EXPECT_FALSE(holds(cache, " word", {}));
  cache.insert(PieceCache::Key(" word"), Ids{5, 6});
  EXPECT_TRUE(holds(cache, " word", {5, 6}));
  cache.insert(PieceCache::Key(" word"), Ids{7});
  EXPECT_TRUE(holds(cache, " word", {7}));
}

TEST(PieceCache, TellsPiecesApartThatDifferInZerosAtTheirEnd) {
  PieceCache cache;
  const std::string zeros("a\0\0\0\0\0\0\0\0\0\0", 11);
  cache.insert(PieceCache::Key("a"), Ids{1});
  for (size_t size = 2; size <= zeros.size(); ++size) EXPECT_FALSE(holds(cache, zeros.substr(0, size), {})) << size;
  EXPECT_TRUE(holds(cache, "a", {1}));
}

TEST(PieceCache, DoesNotHoldPiecesThatAreEmptyOrTooLongOrOfTooManyTokens) {
  PieceCache cache;
  const std::string longest(PieceCache::kPieceBytesMax, 'x');
  const Ids most(PieceCache::kTokensMax, 3);
  cache.insert(PieceCache::Key(longest), most);
  EXPECT_TRUE(holds(cache, longest, most));
  cache.insert(PieceCache::Key(longest + "x"), Ids{1});
  EXPECT_FALSE(holds(cache, longest + "x", {}));
  cache.insert(PieceCache::Key("y"), Ids(PieceCache::kTokensMax + 1, 3));
  EXPECT_FALSE(holds(cache, "y", {}));
  cache.insert(PieceCache::Key(std::string_view()), Ids{1});
  EXPECT_FALSE(holds(cache, std::string_view(), {}));
}

TEST(PieceCache, GivesEachPieceItsOwnTokensWhenThereAreMoreThanFit) {
  PieceCache cache;
  const int count = 4 * static_cast<int>(PieceCache::kSlots);
  size_t held = 0;
  for (int i = 0; i < count; ++i) cache.insert(PieceCache::Key(numbered_piece(i)), numbered_ids(i));
  for (int i = 0; i < count; ++i) held += holds(cache, numbered_piece(i), numbered_ids(i)) ? 1 : 0;
  EXPECT_LE(held, PieceCache::kSlots);
  EXPECT_GE(held, PieceCache::kSlots * 9 / 10);  // all slots are in use: 1 - exp(-4) of them by a fair hash
}

TEST(PieceCache, NoReaderSeesHalfAWrite) {
  // Pieces of one slot: each puts the first one out.
  PieceCache cache;
  std::vector<int> rivals = {0};
  for (int i = 1; rivals.size() < 6; ++i) {
    ASSERT_LT(i, 900'000);
    Ids out;
    cache.insert(PieceCache::Key(numbered_piece(0)), numbered_ids(0));
    cache.insert(PieceCache::Key(numbered_piece(i)), numbered_ids(i));
    if (!cache.find(PieceCache::Key(numbered_piece(0)), out)) rivals.push_back(i);
  }
  const auto work = [&](size_t first, size_t* found) {
    for (size_t i = first; i < first + 30'000; ++i) {
      const int number = rivals[i % rivals.size()];
      if (i % 3 == 0) cache.insert(PieceCache::Key(numbered_piece(number)), numbered_ids(number));
      const int other = rivals[i / 2 % rivals.size()];
      *found += holds(cache, numbered_piece(other), numbered_ids(other)) ? 1 : 0;
    }
  };
  std::vector<size_t> found(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) threads.emplace_back(work, i, &found[i]);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(std::accumulate(found.begin(), found.end(), size_t{0}), 0u);
}

}  // namespace
}  // namespace twostroke
