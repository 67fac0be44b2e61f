#include <gtest/gtest.h>

#include <random>

#include "server/text/detokenizer.h"
#include "server/text/grammar/gbnf.h"
#include "server/text/grammar/grammar_constraint.h"
#include "tests/text/grammar/random_grammar.h"
#include "tests/text/grammar/vocabularies.h"
#include "tests/text/tokenizer/tokenizer_files.h"

namespace twostroke::grammar {
namespace {

std::vector<TokenId> allowed(TokenConstraint& constraint, const Tokenizer& tokenizer) {
  std::vector<uint32_t> mask((static_cast<size_t>(tokenizer.vocab_size()) + 31) / 32);
  constraint.fill_mask(mask);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    if (mask[static_cast<size_t>(token) / 32] >> token % 32 & 1) tokens.push_back(token);
  }
  return tokens;
}

struct ByteLevel {
  ByteLevel() {
    TokenizerSpec spec = byte_level_spec("gpt-2", {"a b", "ab c", "c d", "d d", "b a"});
    end = add_token(spec, "<end>", TokenType::kControl);
    call = add_token(spec, "<call>", TokenType::kControl);
    tokenizer = make_tokenizer(spec);
  }
  TokenId end = -1, call = -1;
  std::unique_ptr<Tokenizer> tokenizer;
};

TEST(GrammarConstraint, AllowsStopTokensExactlyWhereTheTextMayEnd) {
  const ByteLevel model;
  const TokenTrie tokens(*model.tokenizer);
  const auto constraint = make_constraint(gbnf("root ::= \"a\" \"b\"*"), *model.tokenizer, tokens, {model.end});
  const TokenId a = 'a', b = 'b', ab = model.tokenizer->find("ab");
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{a, ab}));
  constraint->accept(ab);
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{b, model.end}));
}

TEST(GrammarConstraint, AllowsOnlyStopTokensWhereTheTextMustEnd) {
  const ByteLevel model;
  const TokenTrie tokens(*model.tokenizer);
  const auto constraint = make_constraint(gbnf("root ::= \"a\""), *model.tokenizer, tokens, {'z', model.end});
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{'a'}));
  constraint->accept('a');
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{'z', model.end}));
}

TEST(GrammarConstraint, ATextTokenThatStopsIsNoText) {
  const ByteLevel model;
  const TokenTrie tokens(*model.tokenizer);
  const auto constraint = make_constraint(gbnf("root ::= [a-c]+"), *model.tokenizer, tokens, {'c'});
  const auto at_start = allowed(*constraint, *model.tokenizer);
  EXPECT_EQ(std::count(at_start.begin(), at_start.end(), 'c'), 0);
  constraint->accept('a');
  const auto later = allowed(*constraint, *model.tokenizer);
  EXPECT_EQ(std::count(later.begin(), later.end(), 'c'), 1);
}

TEST(GrammarConstraint, ReadsControlTokensThatTheGrammarNames) {
  const ByteLevel model;
  const TokenTrie tokens(*model.tokenizer);
  const auto grammar = compile_gbnf("root ::= \"a\"* (<call> \"b\")?", model.tokenizer.get());
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  const auto constraint = make_constraint(*grammar, *model.tokenizer, tokens, {model.end});
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{'a', model.end, model.call}));
  constraint->accept(model.call);
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{'b'}));
  constraint->accept('b');
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{model.end}));
}

TEST(GrammarConstraint, EndsWhereTheVocabularyHasNothingThatCouldFollow) {
  const ByteLevel model;
  const TokenTrie tokens(*model.tokenizer);
  const auto constraint = make_constraint(gbnf("root ::= \"a\" <[99999]>"), *model.tokenizer, tokens, {model.end});
  constraint->accept('a');
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{model.end}));
}

TEST(GrammarConstraint, TokensMayEndWithinACharacter) {
  const ByteLevel model;
  const TokenTrie tokens(*model.tokenizer);
  const auto constraint = make_constraint(gbnf("root ::= \"\xC3\xA9\""), *model.tokenizer, tokens, {model.end});
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{0xC3}));
  constraint->accept(0xC3);
  EXPECT_EQ(allowed(*constraint, *model.tokenizer), (std::vector<TokenId>{0xA9}));
}

TEST(GrammarConstraint, DropsALeadingSpaceWhereTheClientDoesNotSeeIt) {
  TokenizerSpec spec = sentencepiece_spec({"\xE2\x96\x81", "\xE2\x96\x81{", "{", "}", "{}", "\xE2\x96\x81{}"});
  const auto tokenizer = make_tokenizer(spec);
  ASSERT_TRUE(tokenizer->strips_leading_space());
  const TokenTrie tokens(*tokenizer);
  const TokenId space = 259, space_brace = 260, brace = 261, close = 262, braces = 263, space_braces = 264;
  const TokenId brace_byte = 3 + '{', space_byte = 3 + ' ', close_byte = 3 + '}';
  const auto grammar = gbnf("root ::= \"{}\"");

  const auto within = make_constraint(grammar, *tokenizer, tokens, {2}, /*at_start=*/false);
  EXPECT_EQ(allowed(*within, *tokenizer), (std::vector<TokenId>{brace_byte, brace, braces}));

  const auto at_start = make_constraint(grammar, *tokenizer, tokens, {2}, /*at_start=*/true);
  EXPECT_EQ(allowed(*at_start, *tokenizer),
            (std::vector<TokenId>{space_byte, brace_byte, space, space_brace, brace, braces, space_braces}));
  at_start->accept(space_brace);
  EXPECT_EQ(allowed(*at_start, *tokenizer), (std::vector<TokenId>{close_byte, close}));

  const auto after_space = make_constraint(grammar, *tokenizer, tokens, {2}, /*at_start=*/true);
  after_space->accept(space);  // dropped: the text has not begun, but the next space would be seen
  EXPECT_EQ(allowed(*after_space, *tokenizer), (std::vector<TokenId>{brace_byte, brace, braces}));
}

TEST(GrammarConstraint, TellsWhetherTheTextThatEndedIsWhole) {
  const ByteLevel byte_level;
  const TokenTrie tokens(*byte_level.tokenizer);
  const auto token = [&](char byte) { return byte_level.tokenizer->find(std::string(1, byte)); };
  const auto whole = make_constraint(gbnf("root ::= \"a\""), *byte_level.tokenizer, tokens, {byte_level.end});
  whole->accept(token('a'));
  whole->accept(byte_level.end);
  EXPECT_TRUE(whole->ended_whole());

  // So ambiguous that a limit of the parser is met before the text can end.
  const auto ambiguous = make_constraint(gbnf("root ::= e \"!\"\ne ::= e e | e e e | e e e e e | \"a\""),
                                         *byte_level.tokenizer, tokens, {byte_level.end});
  bool may_end = false;
  int read = 0;
  for (; read < 5'000 && !may_end; ++read) {
    const std::vector<TokenId> choices = allowed(*ambiguous, *byte_level.tokenizer);
    may_end = std::find(choices.begin(), choices.end(), byte_level.end) != choices.end();
    if (!may_end) ambiguous->accept(token('a'));
  }
  EXPECT_GT(read, 10);
  ASSERT_TRUE(may_end) << "a sequence must be able to end";
  ambiguous->accept(byte_level.end);
  EXPECT_FALSE(ambiguous->ended_whole());
}

// Walks by chance through what masks allow: never stuck, and what ends is a text of the grammar, as a client sees it.
TEST(GrammarConstraint, LeadsEveryWalkToATextOfTheGrammar) {
  const ByteLevel byte_level;
  TokenizerSpec spec = sentencepiece_spec({"\xE2\x96\x81",
                                           "\xE2\x96\x81"
                                           "a",
                                           "ab",
                                           "\xE2\x96\x81"
                                           "ab",
                                           "cd", "dd", "b", "abc"});
  const auto sentencepiece = make_tokenizer(spec);
  int ended = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    const RandomGrammar description = random_grammar(random, 4);
    const auto grammar = compile_gbnf(description.gbnf());
    if (!grammar.ok()) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + description.gbnf());
    const bool at_start = seed % 2 == 0;
    const Tokenizer& tokenizer = at_start ? *sentencepiece : *byte_level.tokenizer;
    const TokenTrie tokens(tokenizer);
    const TokenId end = at_start ? 2 : byte_level.end;
    const auto constraint = make_constraint(*grammar, tokenizer, tokens, {end}, at_start);
    Detokenizer detokenizer(tokenizer, at_start, /*skip_special=*/true);
    std::string text;
    for (int step = 0; step < 40; ++step) {
      const std::vector<TokenId> choices = allowed(*constraint, tokenizer);
      ASSERT_FALSE(choices.empty());
      const bool may_end = std::find(choices.begin(), choices.end(), end) != choices.end();
      if (text.size() < 40) {
        ASSERT_EQ(may_end, recognises(description, text)) << text;
      }
      if (may_end && random() % 3 == 0) {
        ++ended;
        break;
      }
      const TokenId token = choices[random() % choices.size()];
      if (token == end) break;
      constraint->accept(token);
      text += detokenizer.push(token);
    }
  }
  EXPECT_GT(ended, 50);
}

}  // namespace
}  // namespace twostroke::grammar
