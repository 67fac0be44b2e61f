#include "server/text/pre_tokenizer.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <set>

#include "server/text/pre_tokenizer_patterns.h"

namespace twostroke {
namespace {

std::string repeat(std::string_view unit, size_t size) {
  std::string text;
  text.reserve(size + unit.size());
  while (text.size() < size) text.append(unit);
  return text;
}

std::unique_ptr<PreTokenizer> pre_tokenizer(std::string_view name) {
  auto result = PreTokenizer::create(name);
  EXPECT_TRUE(result.ok()) << name;
  return std::move(*result);
}

std::vector<std::string_view> split(std::string_view name, std::string_view text) {
  std::vector<std::string_view> pieces;
  pre_tokenizer(name)->split(text, pieces);
  return pieces;
}

using Pieces = std::vector<std::string_view>;

// One name for each distinct chain of patterns.
std::vector<std::string_view> families() {
  std::set<const std::string_view*> seen;
  std::vector<std::string_view> names;
  for (const PreTokenizerName& entry : pre_tokenizer_names()) {
    if (seen.insert(entry.pattern->stages.data()).second) names.push_back(entry.name);
  }
  return names;
}

TEST(PreTokenizer, RefusesAnUnknownNameAndListsTheKnownOnes) {
  const auto result = PreTokenizer::create("jais-2");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(result.status().message().find("\"jais-2\""), std::string::npos);
  EXPECT_NE(result.status().message().find("llama-bpe"), std::string::npos);
  EXPECT_NE(result.status().message().find("viking"), std::string::npos);
}

TEST(PreTokenizer, GivesEachStretchOfInvalidBytesAPieceOfItsOwn) {
  EXPECT_EQ(split("gpt-2",
                  "ab\xFF\xFE"
                  "cd"),
            (Pieces{"ab", "\xFF\xFE", "cd"}));
  EXPECT_EQ(split("llama-bpe", " \xE4\xB8"), (Pieces{" ", "\xE4\xB8"}));
  EXPECT_EQ(split("gpt-2", "\xED\xA0\x80"), (Pieces{"\xED\xA0\x80"}));
}

TEST(PreTokenizer, SplitsNothingIntoNothing) { EXPECT_EQ(split("gpt-2", ""), Pieces{}); }

TEST(PreTokenizer, TakesNulAsAnyOtherCharacter) {
  EXPECT_EQ(split("qwen2", std::string_view("a\0b", 3)), (Pieces{"a", std::string_view("\0b", 2)}));
}

// A megabyte of each, in one piece or in a million. Scanning the rest of the text for each piece would take 10^12
// steps: hours, which the test's time limit turns into a failure. Runs on a stack of 128 KB to show that no input needs
// more.
class Megabyte : public testing::TestWithParam<std::string_view> {};

constexpr size_t kStackBytes = 128 << 10;

void* split_megabytes(void* argument) {
  const std::string_view name = *static_cast<const std::string_view*>(argument);
  const std::unique_ptr<PreTokenizer> splitter = pre_tokenizer(name);
  // Letters small, capital, without case and as marks; digits; spaces of all kinds, alone and before something else;
  // punctuation; what begins like a contraction; and a mixture of all.
  const std::string_view units[] = {"a", "A", "\xE4\xB8\xAD", "\xCC\x81", "7", " ", "\n", "!", "'", "'Aa7 !\n"};
  std::vector<std::string_view> pieces;
  for (const std::string_view unit : units) {
    for (const std::string_view end : {"", "x"}) {
      const std::string text = repeat(unit, 1'000'000).append(end);
      splitter->split(text, pieces);
      size_t size = 0;
      for (const std::string_view piece : pieces) {
        EXPECT_EQ(piece.data(), text.data() + size);
        size += piece.size();
      }
      EXPECT_EQ(size, text.size()) << name;
    }
  }
  return nullptr;
}

TEST_P(Megabyte, IsSplitInLinearTimeOnASmallStackWithoutLoss) {
  std::string_view name = GetParam();
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, split_megabytes, &name), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

INSTANTIATE_TEST_SUITE_P(Families, Megabyte, testing::ValuesIn(families()), [](const auto& parameter) {
  std::string name(parameter.param);
  for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace twostroke
