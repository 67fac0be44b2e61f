// What holds for every grammar: the matcher agrees with a slow recogniser, masks with trying every token out, and what
// a mask allows can always be finished. Grammars, vocabularies and texts are random, from fixed seeds.

#include <gtest/gtest.h>

#include "server/text/grammar/gbnf.h"
#include "tests/text/grammar/random_grammar.h"
#include "tests/text/grammar/vocabularies.h"

namespace twostroke::grammar {
namespace {

std::string random_text(std::mt19937_64& random, size_t length_max) {
  std::string text(random() % (length_max + 1), 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 4);
  return text;
}

// Grammars that have a text; those that have none must be refused with that message.
std::shared_ptr<const Grammar> compile(const RandomGrammar& grammar) {
  auto result = compile_gbnf(grammar.gbnf());
  if (!result.ok()) {
    EXPECT_NE(result.status().message().find("the grammar has no text"), std::string::npos)
        << result.status().message();
    return nullptr;
  }
  return *result;
}

TEST(GrammarProperties, AMatcherAgreesWithASlowRecogniser) {
  int compiled = 0, accepted = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    std::mt19937_64 random(seed);
    const RandomGrammar grammar = random_grammar(random, 4);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + grammar.gbnf());
    const auto compiled_grammar = compile(grammar);
    compiled += compiled_grammar != nullptr;
    for (int i = 0; i < 25; ++i) {
      const std::string text = random_text(random, 9);
      const bool expected = recognises(grammar, text);
      accepted += expected;
      ASSERT_EQ(compiled_grammar && accepts(compiled_grammar, text), expected) << '"' << text << '"';
    }
  }
  EXPECT_GT(compiled, 1000);
  EXPECT_GT(accepted, 1000);
}

// Reads what a matcher itself allows, so that longer texts come about than chance would find.
TEST(GrammarProperties, TextsThatAMatcherReachesAreThoseOfASlowRecogniser) {
  const std::vector<std::string> pieces = byte_vocabulary();
  const TokenTrie trie(pieces);
  int ends = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    std::mt19937_64 random(seed);
    const RandomGrammar grammar = random_grammar(random, 3);
    const auto compiled = compile(grammar);
    if (!compiled) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + grammar.gbnf());
    Matcher matcher(compiled);
    std::string text;
    while (text.size() < 50) {
      ASSERT_EQ(matcher.may_end(), recognises(grammar, text)) << '"' << text << '"';
      ends += matcher.may_end();
      std::string next;
      for (char c = 'a'; c <= 'd'; ++c) {
        if (Matcher(matcher).accept({&c, 1})) next.push_back(c);
      }
      ASSERT_EQ(matcher.must_end(), next.empty());
      if (next.empty()) break;
      text.push_back(next[random() % next.size()]);
      ASSERT_TRUE(matcher.accept({&text.back(), 1}));
    }
    ASSERT_TRUE(!matcher.must_end() || matcher.may_end());
  }
  EXPECT_GT(ends, 2000);
}

TEST(GrammarProperties, AMaskAllowsWhatCouldBeAccepted) {
  uint64_t allowed = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const RandomGrammar grammar = random_grammar(random, 4);
    const auto compiled = compile(grammar);
    if (!compiled) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + grammar.gbnf());
    std::vector<std::string> pieces{""};
    for (int i = 0; i < 90; ++i) pieces.push_back(random_text(random, 6));
    pieces.insert(pieces.end(), {"a", "b", "c", "d"});
    const TokenTrie trie(pieces);
    Matcher matcher(compiled);
    for (int step = 0; step < 12; ++step) {
      const std::vector<uint32_t> mask = mask_of(matcher, trie), tried = tried_mask_of(matcher, pieces);
      ASSERT_EQ(mask, tried) << "step " << step << difference(mask, tried, pieces);
      std::vector<size_t> tokens;
      for (size_t token = 0; token < pieces.size(); ++token) {
        if (mask[token / 32] >> token % 32 & 1) tokens.push_back(token);
      }
      allowed += tokens.size();
      if (tokens.empty()) break;
      ASSERT_TRUE(matcher.accept(pieces[tokens[random() % tokens.size()]]));
    }
  }
  EXPECT_GT(allowed, 5000u);
}

// Texts of strings, numbers and so on, with tokens of ordinary text: what masks have shortcuts for.
TEST(GrammarProperties, MasksOfStringsAreThoseOfTryingOut) {
  const std::vector<std::string> grammars = {
      R"(root ::= "\"" [^"\\\x00-\x1f]* "\"")",
      R"(root ::= "\"" [^"\\\x00-\x1f]{0,9} "\"")",
      R"(root ::= "\"" [^"\\\x00-\x1f]{3,60} "\"")",
      R"(root ::= "\"" [^"\\\x00-\x1f]{30,40} "\"")",
      R"(root ::= "\"" ([^"\\\x00-\x1f] | "\\" [nt"\\]){5,} "\"")",
      R"(root ::= .{0,7} "xyz" .*)",
      R"(root ::= (.{2,7} "\n"){1,60})",
      R"(root ::= (. "a"*){0,8} "\"")",
      R"(root ::= ([^a] "a"* | "b"+){2,50} "\"")",
      R"(root ::= (text ","){0,40} text
         text ::= "\"" [^"]{0,20} "\"" | [a-z ]+)",
      R"(root ::= "[" (value (", " value)*)? "]"
         value ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\bfnrt/])* "\"" | root | "{" pair ("," pair)* "}" | "-"? [0-9]+
         pair ::= "\"" [a-z]{1,30} "\":" " "? value)",
  };
  std::vector<std::string> pieces = byte_vocabulary({"the",
                                                     " the",
                                                     "hello world",
                                                     "\xC3\xA9t\xC3\xA9",
                                                     "\xE4\xB8\xAD\xE6\x96\x87",
                                                     "\xE4\xB8",
                                                     "\xAD",
                                                     "\xF0\x9F",
                                                     "\xF0\x9F\x98\x80",
                                                     "\"",
                                                     "\",",
                                                     "\", \"",
                                                     "\":",
                                                     "\"]",
                                                     "a\"",
                                                     "abc\", \"def",
                                                     "\\n",
                                                     "\\\"",
                                                     "\\",
                                                     "\n",
                                                     "\n\n",
                                                     "a\n",
                                                     "aaaa",
                                                     "aaaaaaaaaaaaaaaa",
                                                     "aab",
                                                     "xyz",
                                                     "xyzxyz",
                                                     "  ",
                                                     "        ",
                                                     "[[",
                                                     "]]",
                                                     "]",
                                                     "[\"",
                                                     "{\"",
                                                     "12",
                                                     "-1",
                                                     "123456",
                                                     "}, {",
                                                     "a,b",
                                                     "0]",
                                                     "caf\xC3\xA9\"",
                                                     "long text of more than twenty code points",
                                                     "\x7F"});
  const TokenTrie trie(pieces);
  uint64_t seed = 7;
  for (const std::string& text : grammars) {
    SCOPED_TRACE(text);
    const auto grammar = gbnf(text);
    ASSERT_TRUE(grammar);
    for (int walk = 0; walk < 6; ++walk) {
      std::mt19937_64 random(++seed);
      Matcher matcher(grammar);
      for (int step = 0; step < 25; ++step) {
        const std::vector<uint32_t> mask = mask_of(matcher, trie), tried = tried_mask_of(matcher, pieces);
        ASSERT_EQ(mask, tried) << "walk " << walk << " step " << step << difference(mask, tried, pieces);
        std::vector<size_t> tokens;
        for (size_t token = 0; token < pieces.size(); ++token) {
          if (mask[token / 32] >> token % 32 & 1) tokens.push_back(token);
        }
        if (tokens.empty()) break;
        // Mostly the pieces at the end, which are longer.
        const size_t pick = random() % 4 == 0 ? random() % tokens.size()
                                              : tokens.size() - 1 - random() % std::min<size_t>(tokens.size(), 30);
        ASSERT_TRUE(matcher.accept(pieces[tokens[pick]]));
      }
    }
  }
}

}  // namespace
}  // namespace twostroke::grammar
