// What a stranger's grammar and text may cost.

#include <gtest/gtest.h>

#include <thread>

#include "server/text/grammar/chart.h"
#include "server/text/grammar/compiled_grammar.h"
#include "server/text/grammar/gbnf.h"
#include "tests/text/grammar/vocabularies.h"

namespace twostroke::grammar {
namespace {

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result.append(text);
  return result;
}

TEST(GrammarLimits, ALargeRepetitionIsNoLargerThanASmallOne) {
  const auto grammar = gbnf("root ::= \"<\" \"ab\"{3,1000000} \">\"");
  EXPECT_LT(grammar->positions.size(), 20u);
  EXPECT_TRUE(accepts(grammar, "<ababab>"));
  EXPECT_FALSE(accepts(grammar, "<abab>"));
  EXPECT_TRUE(accepts(grammar, "<" + repeated("ab", 70'000) + ">"));
  EXPECT_TRUE(accepts(gbnf("root ::= [a-z]{0,2000}"), repeated("x", 2000)));
  EXPECT_FALSE(accepts(gbnf("root ::= [a-z]{0,2000}"), repeated("x", 2001)));
  EXPECT_FALSE(accepts(gbnf("root ::= [a-z]{2000}"), repeated("x", 1999)));
  EXPECT_TRUE(
      accepts(gbnf("root ::= (([a-z]{1,500} \",\"){100,500} \";\"){2}"), repeated(repeated("xyz,", 100) + ";", 2)));
}

TEST(GrammarLimits, CountsOfRoundsThatMayBeEmptyEnd) {
  const auto grammar = gbnf("root ::= (a{0,1000} \"b\"?){1000,1000000} \"c\"\na ::= \"a\"?");
  EXPECT_TRUE(accepts(grammar, "c"));
  EXPECT_TRUE(accepts(grammar, repeated("ab", 300) + "c"));
}

TEST(GrammarLimits, TextsNestAsDeepAsTheyLike) {
  const auto grammar = gbnf("root ::= \"(\" root \")\" | \"[\" root \"]\" | \"x\"");
  const std::string text = repeated("([", 10'000) + "x" + repeated("])", 10'000);
  EXPECT_TRUE(accepts(grammar, text));
  EXPECT_FALSE(accepts(grammar, text.substr(0, text.size() - 2) + ")]"));
}

TEST(GrammarLimits, WhatWouldNestTooDeepCannotFollowAndWhatClosesCan) {
  const auto grammar = gbnf("root ::= \"(\" (root | pair) \")\" | \"x\"\npair ::= root \",\" root");
  Matcher matcher(grammar);
  size_t depth = 0;
  while (depth < Chart::kDepthMax + 10 && matcher.accept("(")) ++depth;
  EXPECT_LT(depth, Chart::kDepthMax + 10);
  EXPECT_GT(depth, Chart::kDepthMax / 3);
  const std::vector<std::string> pieces = {"(", "x", ",", ")", "((", "x)", "x,x", "x))", "(x"};
  const TokenTrie trie(pieces);
  const std::vector<uint32_t> mask = mask_of(matcher, trie), tried = tried_mask_of(matcher, pieces);
  EXPECT_EQ(mask, tried) << difference(mask, tried, pieces);
  ASSERT_TRUE(matcher.accept("x"));
  for (; depth > 0; --depth) ASSERT_TRUE(matcher.accept(")"));
  EXPECT_TRUE(matcher.must_end());
}

TEST(GrammarLimits, RightAndLeftRecursionTakeNoMoreWithEveryByte) {
  for (const char* text : {"root ::= \"ab\" root | \"ab\"", "root ::= root \"ab\" | \"ab\""})
    EXPECT_TRUE(accepts(gbnf(text), repeated("ab", 100'000))) << text;
}

TEST(GrammarLimits, AnAmbiguousTextEndsWhereItWouldCostTooMuch) {
  const auto grammar = gbnf("root ::= root root | \"a\" | \"b\"");
  EXPECT_TRUE(accepts(grammar, repeated("ab", 50)));
  const std::vector<std::string> pieces = byte_vocabulary({"aa", "ab", "aaaa", "abababab", "ba"});
  const TokenTrie trie(pieces);
  Matcher matcher(grammar);
  size_t length = 0;
  while (length < 5000 && matcher.accept("a")) ++length;
  EXPECT_GT(length, 100u);
  EXPECT_LT(length, 5000u);
  EXPECT_TRUE(matcher.may_end());
  mask_of(matcher, trie);  // comes back
}

TEST(GrammarLimits, GrammarsThatAreTooLargeAreRefused) {
  GrammarLimits limits;
  limits.expressions_max = 100;
  limits.rules_max = 10;
  const auto refusal = [&](auto fill) {
    GrammarBuilder builder(limits);
    const auto grammar = builder.build(fill(builder));
    return grammar.ok() ? "" : grammar.status().message();
  };
  EXPECT_EQ(refusal([](GrammarBuilder& builder) {
              std::vector<ExprId> parts;
              for (int i = 0; i < 101; ++i) parts.push_back(builder.literal("text " + std::to_string(i)));
              return builder.choice(parts);
            }),
            "the grammar has more than 100 expressions");
  EXPECT_EQ(refusal([](GrammarBuilder& builder) {
              ExprId last = builder.empty();
              for (int i = 0; i < 11; ++i) last = builder.reference(builder.add_rule("r"));
              return last;
            }),
            "the grammar has more than 10 rules");
  EXPECT_EQ(refusal([](GrammarBuilder& builder) { return builder.repeat(builder.literal("a"), 0, 1'000'001); }),
            "a repetition's bound is 1000001, more than 1000000");
  EXPECT_EQ(refusal([](GrammarBuilder& builder) { return builder.reference(builder.add_rule("missing")); }),
            "rule 'missing' is not defined");
  EXPECT_EQ(refusal([](GrammarBuilder& builder) { return builder.never(); }),
            "the grammar has no text: every way through it goes on for ever");
}

TEST(GrammarLimits, ManyRulesThatCallOneAnotherAreRefusedOrRead) {
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 50'000; ++i) chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " | \"z\"\n";
  const auto refused = compile_gbnf(chain + "r50000 ::= \"a\"");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("too many ways"), std::string::npos) << refused.status().message();
  std::string nested = "root ::= r0\n";
  for (int i = 0; i < 5'000; ++i)
    nested += "r" + std::to_string(i) + " ::= \"(\" r" + std::to_string(i + 1) + " \")\"\n";
  EXPECT_TRUE(accepts(gbnf(nested + "r5000 ::= \"a\""), repeated("(", 5000) + "a" + repeated(")", 5000)));
}

TEST(GrammarLimits, ExpressionsOfABuilderNestAsDeepAsTheyLike) {
  GrammarBuilder builder;
  const ExprId a = builder.literal("a");
  ExprId nested = a;
  for (int i = 0; i < 30'000; ++i) {
    const ExprId longer[] = {a, nested};
    nested = builder.repeat(builder.sequence(longer), 0, 1);
  }
  const auto grammar = builder.build(nested);
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(accepts(*grammar, "aaaa"));
  EXPECT_TRUE(accepts(*grammar, ""));
}

TEST(GrammarLimits, ThousandsOfAlternativesInALoopAreRead) {
  std::string text = "root ::= (";
  for (int i = 10'000; i < 30'000; ++i) text += "\"word" + std::to_string(i) + "\" | ";
  const auto grammar = gbnf(text + "\"end\")*");
  EXPECT_TRUE(accepts(grammar, "word10017word29999endword10000"));
  EXPECT_FALSE(accepts(grammar, "word10017word"));
}

TEST(GrammarLimits, MatchersOfOneGrammarMayRunOnManyThreads) {
  const auto grammar = gbnf("root ::= \"[\" (text (\",\" text)*)? \"]\"\ntext ::= \"\\\"\" [a-z ]{0,300} \"\\\"\"");
  const std::vector<std::string> pieces = byte_vocabulary({"[\"", "ab", "the ", "\",\"", "\"]"});
  const TokenTrie trie(pieces);
  const auto read = [&] {
    std::vector<std::vector<uint32_t>> masks;
    Matcher matcher(grammar);
    for (const char* piece : {"[\"", "the ", "ab", "\",\"", "ab", "\"]"}) {
      masks.push_back(mask_of(matcher, trie));
      matcher.accept(piece);
    }
    return masks;
  };
  std::vector<std::vector<std::vector<uint32_t>>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = read(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, read());
}

}  // namespace
}  // namespace twostroke::grammar
