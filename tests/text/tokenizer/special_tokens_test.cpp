#include "server/text/special_tokens.h"

#include <gtest/gtest.h>

#include <string>

namespace twostroke {
namespace {

std::string describe(const SpecialTokens& tokens, std::string_view text, const std::vector<TextRange>& trusted) {
  std::string out;
  for (const SpecialTokens::Match& match : tokens.find(text, trusted)) {
    out += std::to_string(match.token.id) + "@" + std::to_string(match.begin) + "-" + std::to_string(match.end) + " ";
  }
  return out;
}

SpecialTokens example() {
  SpecialTokens tokens;
  tokens.add("<s>", {.id = 1, .anywhere = false, .rstrip = false});
  tokens.add("<s>>", {.id = 2, .anywhere = false, .rstrip = false});
  tokens.add("  ", {.id = 3, .anywhere = true, .rstrip = false});
  tokens.add("    ", {.id = 4, .anywhere = true, .rstrip = false});
  return tokens;
}

TEST(SpecialTokens, TheLongestWinsAtEachPosition) {
  EXPECT_EQ(describe(example(), "<s><s>>", {{0, 7}}), "1@0-3 2@3-7 ");
  EXPECT_EQ(describe(example(), "a       b", {{0, 9}}), "4@1-5 3@5-7 ");
}

TEST(SpecialTokens, CountOnlyInTrustedText) {
  EXPECT_EQ(describe(example(), "<s> <s>", {}), "");
  EXPECT_EQ(describe(example(), "<s> <s>", {{4, 7}}), "1@4-7 ");
  EXPECT_EQ(describe(example(), "<s><s>", {{0, 2}, {3, 6}}), "1@3-6 ");
  EXPECT_EQ(describe(example(), "<s>>", {{0, 3}}), "1@0-3 ");  // the longer one ends outside
}

TEST(SpecialTokens, UserDefinedOnesCountAnywhere) {
  EXPECT_EQ(describe(example(), "<s>  <s>", {}), "3@3-5 ");
  EXPECT_EQ(describe(example(), "     ", {{0, 1}}), "4@0-4 ");
}

}  // namespace
}  // namespace twostroke
