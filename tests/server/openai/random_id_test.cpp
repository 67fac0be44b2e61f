// Ids come from the operating system: what can be seen of that from outside.
#include "server/openai/random_id.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace twostroke::openai {
namespace {

TEST(RandomId, IsThePrefixAndTwentyFourCharacters) {
  const std::string id = new_id("resp_");
  EXPECT_EQ(id.size(), 5U + 24U);
  EXPECT_TRUE(id.starts_with("resp_"));
  EXPECT_EQ(id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz", 5), std::string::npos) << id;
}

// Each place takes every character about equally often. The bounds are ten standard deviations wide.
TEST(RandomId, NoCharacterIsLikelierAndNoIdComesTwice) {
  constexpr int kIds = 20'000;
  std::set<std::string> seen;
  std::array<int, 256> counts{};
  for (int i = 0; i < kIds; ++i) {
    const std::string id = new_id("");
    for (const char c : id) ++counts[static_cast<unsigned char>(c)];
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kIds));
  for (const char c : std::string("0123456789abcdefghijklmnopqrstuvwxyz")) {
    EXPECT_NEAR(counts[static_cast<unsigned char>(c)], kIds * 24 / 36, 1'200) << c;
  }
}

}  // namespace
}  // namespace twostroke::openai
