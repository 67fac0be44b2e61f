#include "server/text/symbol_merge.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace twostroke {
namespace {

using Merges = std::map<std::pair<TokenId, TokenId>, Merge>;

// The definition: join the pair of lowest rank, the leftmost of equals, until there is none.
std::vector<TokenId> join_by_definition(std::vector<TokenId> ids, const Merges& merges) {
  for (;;) {
    size_t at = ids.size();
    Merge best;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find({ids[i], ids[i + 1]});
      if (found != merges.end() && (at == ids.size() || found->second.rank < best.rank)) {
        at = i;
        best = found->second;
      }
    }
    if (at == ids.size()) return ids;
    ids[at] = best.id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

std::vector<TokenId> join(const std::vector<TokenId>& ids, const Merges& merges, SymbolMerger& merger,
                          size_t* lookups = nullptr) {
  merger.clear();
  for (const TokenId id : ids) merger.add(id, 1);
  merger.run([&](const Symbol& left, const Symbol& right) {
    if (lookups) ++*lookups;
    const auto found = merges.find({left.id, right.id});
    return found == merges.end() ? Merge{} : found->second;
  });
  std::vector<TokenId> out;
  merger.for_each([&](const Symbol& symbol) { out.push_back(symbol.id); });
  return out;
}

TEST(SymbolMerger, JoinsAsTheDefinitionSays) {
  const unsigned seed = 3;
  std::mt19937 random(seed);
  SymbolMerger merger;
  for (int round = 0; round < 3000; ++round) {
    Merges merges;
    TokenId next = 4;
    for (uint32_t rank = 0; rank < 12; ++rank) {
      const auto limit = static_cast<uint32_t>(next);
      const std::pair<TokenId, TokenId> pair{static_cast<TokenId>(random() % limit),
                                             static_cast<TokenId>(random() % limit)};
      // Some ranks are shared, as equal scores are.
      if (merges.try_emplace(pair, Merge{rank / 2, next}).second) ++next;
    }
    std::vector<TokenId> ids(random() % 30);
    for (TokenId& id : ids) id = static_cast<TokenId>(random() % 4);
    ASSERT_EQ(join(ids, merges, merger), join_by_definition(ids, merges)) << "seed " << seed << ", round " << round;
  }
}

TEST(SymbolMerger, LooksUpALinearNumberOfPairs) {
  Merges merges;  // doubles: 0 0 -> 1, 1 1 -> 2, ...
  for (TokenId id = 0; id < 20; ++id) merges[{id, id}] = Merge{static_cast<uint32_t>(id), id + 1};
  SymbolMerger merger;
  const size_t symbols = 1 << 20;
  size_t lookups = 0;
  EXPECT_EQ(join(std::vector<TokenId>(symbols, 0), merges, merger, &lookups), (std::vector<TokenId>{20}));
  EXPECT_LE(lookups, 3 * symbols);  // each pair at the start, and two for each of the joins
}

}  // namespace
}  // namespace twostroke
