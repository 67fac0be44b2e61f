#include "server/text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "server/text/utf8.h"
#include "tests/text/tokenizer/tokenizer_files.h"

namespace twostroke {
namespace {

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Unit unit = utf8_first_unit(text);
    if (unit.kind != Utf8Kind::kCharacter) return false;
    text.remove_prefix(unit.size);
  }
  return true;
}

// All bytes of `ids` at once, then made valid: what the streamed text has to add up to.
std::string decode_at_once(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool at_start,
                           bool skip_special) {
  std::string bytes;
  bool first_is_special = false;
  for (const TokenId id : ids) {
    if (bytes.empty()) first_is_special = tokenizer.is_control(id);
    bytes.append(tokenizer.piece(id, !skip_special));
  }
  const bool strip = at_start && tokenizer.strips_leading_space() && !(first_is_special && !skip_special);
  if (strip && !bytes.empty() && bytes.front() == ' ') bytes.erase(0, 1);
  return utf8_replace_invalid(bytes);
}

void expect_streams(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool at_start, bool skip_special,
                    const std::string& where) {
  Detokenizer detokenizer(tokenizer, at_start, skip_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = detokenizer.push(id);
    ASSERT_TRUE(is_utf8(part)) << where;
    text += part;
  }
  const std::string rest = detokenizer.finish();
  ASSERT_TRUE(is_utf8(rest)) << where;
  ASSERT_EQ(text + rest, decode_at_once(tokenizer, ids, at_start, skip_special)) << where;
}

class Detokenizing : public testing::TestWithParam<std::string> {};

TEST_P(Detokenizing, RandomTokensAddUpToTheWholeDecode) {
  if (vocabulary_directory().empty()) GTEST_SKIP() << "no shared data at " << TWOSTROKE_SHARED_DIR;
  const std::unique_ptr<Tokenizer> tokenizer = load_vocabulary(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const unsigned seed = 11;
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> ids(random() % 20);
    for (TokenId& id : ids) {
      // Half of them from the low ids, where single bytes and special tokens are.
      const uint32_t range = random() % 2 == 0 ? 300 : static_cast<uint32_t>(tokenizer->vocab_size());
      id = static_cast<TokenId>(random() % range);
    }
    expect_streams(*tokenizer, ids, random() % 2 == 0, random() % 2 == 0,
                   "seed " + std::to_string(seed) + ", round " + std::to_string(round));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Detokenizing, testing::ValuesIn(vocabulary_names()), [](const auto& parameter) {
  std::string name = parameter.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

TEST(Detokenizer, TurnsAnyBytesIntoWhatPythonMakesOfThem) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(sentencepiece_spec({}));
  ASSERT_NE(tokenizer, nullptr);
  const unsigned seed = 12;
  std::mt19937 random(seed);
  const uint8_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                           0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  for (int round = 0; round < 20000; ++round) {
    std::vector<TokenId> ids(random() % 12);
    for (TokenId& id : ids) id = 3 + edges[random() % std::size(edges)];  // byte tokens begin at 3
    expect_streams(*tokenizer, ids, true, true, "seed " + std::to_string(seed) + ", round " + std::to_string(round));
  }
}

TEST(Detokenizer, HoldsAnIncompleteCharacterBack) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(byte_level_spec("gpt-2", {"a b"}));
  ASSERT_NE(tokenizer, nullptr);
  Detokenizer detokenizer(*tokenizer, true, true);
  EXPECT_EQ(detokenizer.push(0xF0), "");
  EXPECT_EQ(detokenizer.push(0x9F), "");
  EXPECT_EQ(detokenizer.push(0x98), "");
  EXPECT_EQ(detokenizer.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(detokenizer.push(0xE4), "");
  EXPECT_EQ(detokenizer.push('a'),
            "\xEF\xBF\xBD"
            "a");  // it can no longer become a character
  EXPECT_EQ(detokenizer.push(0xE4), "");
  EXPECT_EQ(detokenizer.finish(), "\xEF\xBF\xBD");
}

TEST(Detokenizer, DropsTheDummySpaceOnlyWhereTheTextBegins) {
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(sentencepiece_spec({"\xE2\x96\x81", "a",
                                                                                  "\xE2\x96\x81"
                                                                                  "a"}));
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<TokenId> ids = tokenizer->encode("a a", {.add_special = true, .parse_special = false});
  const auto decode = [&](bool at_start, bool skip_special) {
    Detokenizer detokenizer(*tokenizer, at_start, skip_special);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id);
    return text + detokenizer.finish();
  };
  EXPECT_EQ(decode(true, true), "a a");
  EXPECT_EQ(decode(false, true), " a a");
  EXPECT_EQ(decode(true, false), "<s> a a");
}

TEST(Detokenizer, LeavesControlTokensOutOrWritesThem) {
  TokenizerSpec spec = byte_level_spec("gpt-2", {"a b"});
  const TokenId end = add_token(spec, "<|im_end|>", TokenType::kControl);
  const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(spec);
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(Detokenizer(*tokenizer, true, true).push(end), "");
  EXPECT_EQ(Detokenizer(*tokenizer, true, false).push(end), "<|im_end|>");
}

}  // namespace
}  // namespace twostroke
