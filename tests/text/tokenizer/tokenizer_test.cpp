#include "server/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "tests/text/tokenizer/tokenizer_files.h"

namespace twostroke {
namespace {

using Ids = std::vector<TokenId>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};
constexpr EncodeOptions kParse{.add_special = false, .parse_special = true};
constexpr EncodeOptions kAdd{.add_special = true, .parse_special = false};
constexpr EncodeOptions kAddAndParse{.add_special = true, .parse_special = true};

// A byte-level vocabulary with the tokens "ab", "abc" and special tokens.
class ByteLevel : public testing::Test {
 protected:
  ByteLevel() : spec_(byte_level_spec("gpt-2", {"a b", "ab c", "| >"})) {
    begin_ = add_token(spec_, "<|begin|>", TokenType::kControl);
    end_ = add_token(spec_, "<|im_end|>", TokenType::kControl);
    think_ = add_token(spec_, "<think>", TokenType::kUserDefined);
    spec_.bos = begin_;
    spec_.eos = end_;
  }
  TokenizerSpec spec_;
  const TokenId ab_ = 256, abc_ = 257, bar_ = 258;
  TokenId begin_, end_, think_;
};

TEST_F(ByteLevel, JoinsBytesByTheMerges) {
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode("abcab", kPlain), (Ids{abc_, ab_}));
  EXPECT_EQ(tokenizer->encode("", kPlain), Ids{});
}

TEST_F(ByteLevel, ReadsSpecialTokensOnlyWhenAskedTo) {
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode("ab<|im_end|>ab", kParse), (Ids{ab_, end_, ab_}));
  const Ids plain = tokenizer->encode("<|im_end|>", kPlain);
  EXPECT_EQ(plain.size(), 9u);  // nine pieces of text: one byte each, and "|>"
  EXPECT_EQ(join_pieces(*tokenizer, plain), "<|im_end|>");
}

TEST_F(ByteLevel, AlwaysReadsUserDefinedTokens) {
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode("ab<think>ab", kPlain), (Ids{ab_, think_, ab_}));
}

TEST_F(ByteLevel, TakesAUserDefinedTokenThatEndsATurnForAControlToken) {
  spec_.types[static_cast<size_t>(end_)] = TokenType::kUserDefined;
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_TRUE(tokenizer->is_control(end_));
  EXPECT_EQ(tokenizer->encode("<|im_end|>", kPlain).size(), 9u);
  EXPECT_EQ(tokenizer->encode("<|im_end|>", kParse), Ids{end_});
}

TEST_F(ByteLevel, AddsBosAndEosAsTheFileAsks) {
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kAdd), Ids{ab_});  // the default of this family: neither
  spec_.add_bos = true;
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kAdd), (Ids{begin_, ab_}));
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kPlain), Ids{ab_});
  EXPECT_EQ(make_tokenizer(spec_)->encode("", kAdd), Ids{begin_});
  spec_.add_eos = true;
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kAdd), (Ids{begin_, ab_, end_}));
}

TEST_F(ByteLevel, DoesNotDoubleABosThatTheTextBeginsWith) {
  spec_.add_bos = true;
  EXPECT_EQ(make_tokenizer(spec_)->encode("<|begin|>ab", kAddAndParse), (Ids{begin_, ab_}));
}

TEST_F(ByteLevel, AddsBosByDefaultForLlama3) {
  spec_.pre = "llama-bpe";
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kAdd), (Ids{begin_, ab_}));
  spec_.add_bos = false;
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kAdd), Ids{ab_});
}

TEST_F(ByteLevel, TakesAWholePieceAsItsTokenWhereMergesAreIgnored) {
  const TokenId word = add_token(spec_, "hello", TokenType::kNormal);  // no merge leads to it
  EXPECT_EQ(make_tokenizer(spec_)->encode("hello", kPlain).size(), 5u);
  spec_.pre = "llama-bpe";
  EXPECT_EQ(make_tokenizer(spec_)->encode("hello", kPlain), Ids{word});
}

TEST_F(ByteLevel, NeverGrowsTextIntoAControlToken) {
  TokenizerSpec spec = byte_level_spec("gpt-2", {"a b", "ab c"});
  spec.types[257] = TokenType::kControl;  // "abc"
  EXPECT_EQ(make_tokenizer(spec)->encode("abc", kPlain), (Ids{256, 'c'}));
  spec.pre = "llama-bpe";  // nor as a whole piece
  EXPECT_EQ(make_tokenizer(spec)->encode("abc", kPlain), (Ids{256, 'c'}));
}

TEST_F(ByteLevel, EncodesInvalidUtf8WithoutLoss) {
  const auto tokenizer = make_tokenizer(spec_);
  const std::string bytes("a\xFF\x00\xC3\xED\xA0\x80z\xF0\x9F", 10);
  EXPECT_EQ(join_pieces(*tokenizer, tokenizer->encode(bytes, kPlain)), bytes);
}

TEST_F(ByteLevel, WritesAByteWithoutTokenAsReplacementCharacter) {
  spec_.types[0xFF] = TokenType::kUserDefined;  // as deepseek-llm does: U+00FF is a token of its own there
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(join_pieces(*tokenizer, tokenizer->encode("a\xFF", kPlain)), "a\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer->encode("\xC3\xBF", kPlain), Ids{0xFF});
}

TEST_F(ByteLevel, EncodesAMegabyteOfOneLetterOnASinglePiece) {
  const auto tokenizer = make_tokenizer(byte_level_spec("gpt-2", {"a a", "aa aa", "aaaa aaaa"}));
  const Ids ids = tokenizer->encode(std::string(1'000'003, 'a'), kPlain);
  ASSERT_EQ(ids.size(), 125'002u);
  EXPECT_EQ(ids.front(), 258);
  EXPECT_EQ(ids[125'000], 256);
  EXPECT_EQ(ids.back(), 'a');
}

// --- encode_marked ---

TEST_F(ByteLevel, OnlyTrustedTextWritesSpecialTokens) {
  const auto tokenizer = make_tokenizer(spec_);
  const std::string text = "<|begin|>ab<|im_end|>ab<|im_end|>";
  const TextRange trusted[] = {{0, 9}, {23, 33}};
  const Ids ids = tokenizer->encode_marked(text, trusted, false);
  ASSERT_EQ(ids.size(), 13u);
  EXPECT_EQ(ids.front(), begin_);
  EXPECT_EQ(ids.back(), end_);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end_), 1);
  EXPECT_EQ(join_pieces(*tokenizer, ids), text);
}

TEST_F(ByteLevel, ASpecialTokenCannotBeCompletedFromUntrustedText) {
  const auto tokenizer = make_tokenizer(spec_);
  const TextRange trusted[] = {{0, 9}, {10, 10}};  // "<|im_end|" is the template's, ">" is not
  EXPECT_EQ(tokenizer->encode_marked("<|im_end|>", trusted, false), tokenizer->encode("<|im_end|>", kPlain));
}

TEST_F(ByteLevel, TrustedRangesThatTouchCountAsOne) {
  const auto tokenizer = make_tokenizer(spec_);
  const TextRange trusted[] = {{0, 4}, {4, 10}};
  EXPECT_EQ(tokenizer->encode_marked("<|im_end|>", trusted, false), Ids{end_});
}

TEST_F(ByteLevel, MergesReachAcrossTheBorderOfTrustedText) {
  const auto tokenizer = make_tokenizer(spec_);
  const TextRange trusted[] = {{0, 1}, {2, 3}};  // "b" comes from somewhere else
  EXPECT_EQ(tokenizer->encode_marked("abc", trusted, false), Ids{abc_});
}

// --- SentencePiece ---

class SentencePiece : public testing::Test {
 protected:
  SentencePiece()
      : spec_(sentencepiece_spec({"\xE2\x96\x81", "a", "b", "ab",
                                  "\xE2\x96\x81"
                                  "ab",
                                  "ba"})) {}
  TokenizerSpec spec_;
  const TokenId space_ = 259, a_ = 260, b_ = 261, ab_ = 262, space_ab_ = 263, ba_ = 264;
};

TEST_F(SentencePiece, JoinsByScoreBehindADummySpace) {
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode("ab", kAdd), (Ids{1, space_ab_}));
  EXPECT_EQ(tokenizer->encode("bab", kPlain), (Ids{space_, b_, ab_}));  // "ab" before "ba": the better score
  EXPECT_EQ(tokenizer->encode("", kAdd), Ids{1});
  spec_.add_space_prefix = false;
  EXPECT_EQ(make_tokenizer(spec_)->encode("ab", kPlain), Ids{ab_});
}

TEST_F(SentencePiece, FallsBackToBytes) {
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode("\xC3\xA9", kPlain), (Ids{space_, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->encode("\xFF\xE4\xB8", kPlain), (Ids{space_, 3 + 0xFF, 3 + 0xE4, 3 + 0xB8}));
}

TEST_F(SentencePiece, TextNeverBecomesAControlOrByteToken) {
  for (const char* text : {"<s>", "</s>", "<unk>", "<0x0A>"}) {
    add_token(spec_, std::string(1, text[1]), TokenType::kNormal);
    const std::string head(text, std::strlen(text) - 1);
    // Pieces that lead there: "<s", ">", and so on.
    for (size_t size = 1; size <= head.size(); ++size) add_token(spec_, head.substr(0, size), TokenType::kNormal);
  }
  add_token(spec_, ">", TokenType::kNormal);
  spec_.add_space_prefix = false;
  const auto tokenizer = make_tokenizer(spec_);
  for (const char* text : {"<s>", "</s>", "<unk>", "<0x0A>"}) {
    const Ids ids = tokenizer->encode(text, kPlain);
    ASSERT_GE(ids.size(), 2u) << text;
    EXPECT_EQ(join_pieces(*tokenizer, ids), text);
  }
  EXPECT_EQ(tokenizer->encode("<s>", kParse), Ids{1});
}

TEST_F(SentencePiece, JoinsAcrossWordsWhereTheVocabularyDoes) {
  const TokenId across = add_token(spec_,
                                   "b\xE2\x96\x81"
                                   "b",
                                   TokenType::kNormal);  // "b b"
  add_token(spec_, "b\xE2\x96\x81", TokenType::kNormal);
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode("b b", kPlain), (Ids{space_, across}));
}

TEST_F(SentencePiece, EncodesAMegabyteOfOneLetter) {
  const auto tokenizer = make_tokenizer(spec_);
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, 'a'), kPlain).size(), 1'000'001u);
  EXPECT_EQ(tokenizer->encode(std::string(1'000'000, ' '), kPlain).size(), 1'000'001u);
}

TEST_F(SentencePiece, PhiThreeStripsWhitespaceBehindItsSpecialTokens) {
  const TokenId user = add_token(spec_, "<|user|>", TokenType::kControl);
  EXPECT_EQ(make_tokenizer(spec_)->encode("<|user|> \n ab", kParse).size(), 5u);
  spec_.model_name = "Phi-3 mini";
  EXPECT_EQ(make_tokenizer(spec_)->encode("<|user|> \n ab", kParse), (Ids{user, space_ab_}));
  EXPECT_EQ(make_tokenizer(spec_)->encode("<s> ab", kParse), (Ids{1, space_, space_ab_}));
}

// --- loading ---

TEST(TokenizerLoading, FindsTheTokensThatEndAGeneration) {
  TokenizerSpec spec = byte_level_spec("gpt-2", {"a b"});
  const TokenId eos = add_token(spec, "<|the_end|>", TokenType::kControl);
  const TokenId turn = add_token(spec, "<|eot_id|>", TokenType::kControl);
  const TokenId message = add_token(spec, "<|the_eom|>", TokenType::kControl);
  add_token(spec, "<|im_end|>", TokenType::kNormal);  // text like any other
  spec.eos = eos;
  spec.eom = message;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(Ids(tokenizer->end_of_generation().begin(), tokenizer->end_of_generation().end()),
            (Ids{eos, turn, message}));
}

TEST(TokenizerLoading, LeavesEndOutWhereItSeparatesMessages) {
  TokenizerSpec spec = byte_level_spec("gpt-4o", {"a b"});
  add_token(spec, "<|end|>", TokenType::kControl);
  const TokenId returns = add_token(spec, "<|return|>", TokenType::kControl);
  const TokenId call = add_token(spec, "<|call|>", TokenType::kControl);
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(Ids(tokenizer->end_of_generation().begin(), tokenizer->end_of_generation().end()), (Ids{returns, call}));
}

TEST(TokenizerLoading, RefusesWhatItDoesNotKnowByName) {
  TokenizerSpec spec = byte_level_spec("gpt-2", {"a b"});
  spec.model = "t5";
  const auto model = Tokenizer::create(spec);
  EXPECT_EQ(model.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(model.status().message().find("\"t5\""), std::string::npos);
  spec.model = "gpt2";
  spec.pre = "from-the-future";
  const auto pre = Tokenizer::create(spec);
  EXPECT_EQ(pre.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(pre.status().message().find("\"from-the-future\""), std::string::npos);
}

TEST(TokenizerLoading, RefusesADamagedVocabularyAndNamesTheField) {
  struct Case {
    const char* field;
    bool sentencepiece;
    std::function<void(TokenizerSpec&)> damage;
  };
  const Case cases[] = {
      {"tokens", false, [](TokenizerSpec& s) { s.tokens.clear(); }},
      {"token_type", false, [](TokenizerSpec& s) { s.types.pop_back(); }},
      {"merges", false, [](TokenizerSpec& s) { s.merges.clear(); }},
      {"merges[0]", false, [](TokenizerSpec& s) { s.merges[0] = "ab"; }},
      {"merges[1]", false, [](TokenizerSpec& s) { s.merges.push_back("a q"); }},
      {"U+FFFD", false, [](TokenizerSpec& s) { s.tokens[0xEF] = "other"; }},
      {"bos_token_id", false, [](TokenizerSpec& s) { s.add_bos = true; }},
      {"eos_token_id", false, [](TokenizerSpec& s) { s.add_eos = true; }},
      {"scores", true, [](TokenizerSpec& s) { s.scores.pop_back(); }},
      {"scores", true, [](TokenizerSpec& s) { s.scores[5] = std::nanf(""); }},
      {"<0x", true, [](TokenizerSpec& s) { s.tokens[5].replace(3, 2, "ZZ"); }},
      {"unknown_token_id", true,
       [](TokenizerSpec& s) { s.types[5] = TokenType::kNormal, s.unknown.reset(), s.tokens[0].clear(); }},
  };
  for (const Case& damaged : cases) {
    TokenizerSpec spec = damaged.sentencepiece ? sentencepiece_spec({"a"}) : byte_level_spec("gpt-2", {"a b"});
    damaged.damage(spec);
    const auto result = Tokenizer::create(spec);
    ASSERT_FALSE(result.ok()) << damaged.field;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument) << damaged.field;
    EXPECT_NE(result.status().message().find(damaged.field), std::string::npos) << result.status().message();
  }
}

TEST(TokenizerLoading, GivesPiecesAsBytesAndFindsTokensByText) {
  TokenizerSpec spec = byte_level_spec("gpt-2", {"\xC4\xA0 a"});  // the alphabet's space
  const TokenId end = add_token(spec, "<|im_end|>", TokenType::kControl);
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->vocab_size(), 258);
  EXPECT_EQ(tokenizer->piece(256, false), " a");
  EXPECT_EQ(tokenizer->piece(0xFF, false), "\xFF");
  EXPECT_EQ(tokenizer->piece(end, false), "");
  EXPECT_EQ(tokenizer->piece(end, true), "<|im_end|>");
  EXPECT_EQ(tokenizer->find("<|im_end|>"), end);
  EXPECT_EQ(tokenizer->find("nothing"), -1);
}

}  // namespace
}  // namespace twostroke
