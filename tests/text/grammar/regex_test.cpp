#include "server/text/grammar/regex.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "server/text/grammar/dfa_operations.h"
#include "tests/text/grammar/vocabularies.h"

namespace twostroke::grammar {
namespace {

bool is_match(std::string_view pattern, std::string_view text, bool anchored = true) {
  const auto dfa = compile_regex(pattern, anchored);
  EXPECT_TRUE(dfa.ok()) << pattern << ": " << dfa.status().message();
  return dfa.ok() && dfa->matches(text);
}

Status refusal_of(std::string_view pattern) {
  const auto dfa = compile_regex(pattern, true);
  EXPECT_FALSE(dfa.ok()) << pattern.substr(0, 100);
  return dfa.ok() ? Status() : dfa.status();
}

TEST(Regex, FindsWhatPythonFinds) {
  std::ifstream file(std::string(TWOSTROKE_TESTS_DIR) + "/text/grammar/fixtures/regex.json");
  const auto reference = nlohmann::json::parse(file);
  ASSERT_EQ(reference["cases"].size(), 400U);
  for (const auto& test : reference["cases"]) {
    const auto pattern = test["pattern"].get<std::string>();
    SCOPED_TRACE(pattern);
    for (size_t i = 0; i < test["texts"].size(); ++i) {
      const auto text = test["texts"][i].get<std::string>();
      EXPECT_EQ(is_match(pattern, text, false), test["found"][i].get<bool>()) << text;
      EXPECT_EQ(is_match(pattern, text, true), test["whole"][i].get<bool>()) << text;
    }
  }
}

TEST(Regex, ReadsTheEscapesOfEcmaScript) {
  EXPECT_TRUE(is_match(R"(\t\n\v\f\r\0\x41\u00e9\u{1F600}\uD83D\uDE00\cJ\/\-)",
                       std::string_view("\t\n\v\f\r\0A\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80\n/-", 20)));
  EXPECT_TRUE(is_match(R"([\b])", "\b"));
  EXPECT_TRUE(is_match("(?<year>a)(?:b)", "ab"));
  EXPECT_TRUE(is_match("a{b}{,2}", "a{b}{,2}"));
  EXPECT_TRUE(is_match("[^]", "\n"));
  EXPECT_FALSE(is_match("a[]", "a"));
  EXPECT_FALSE(is_match(".", "\xE2\x80\xA8"));
}

TEST(Regex, KnowsGeneralCategories) {
  EXPECT_TRUE(is_match(R"(\p{Lu}\p{Ll}\p{Letter}\p{gc=Nd})", "\xC3\x89\xC3\xA9\xE6\x97\xA5\xD9\xA3"));
  EXPECT_FALSE(is_match(R"(\p{Lu})", "a"));
  EXPECT_TRUE(is_match(R"(\P{L})", "1"));
  EXPECT_TRUE(is_match(R"([\p{L}\d]+)",
                       "\xC3\xA9"
                       "1"));
}

TEST(Regex, MatchesWholeCharactersOnly) {
  EXPECT_FALSE(is_match(".", "\xC3"));
  EXPECT_FALSE(is_match("[^a]", "\xA9"));
  EXPECT_FALSE(is_match("[^a]*", "\xED\xA0\x80"));  // a surrogate
  EXPECT_FALSE(is_match("a", "a\xFF", false));
}

TEST(Regex, AnchorsWorkWhereverTheyStand) {
  EXPECT_TRUE(is_match("^a|b$", "xb", false));
  EXPECT_TRUE(is_match("^a|b$", "ax", false));
  EXPECT_FALSE(is_match("^a|b$", "xax", false));
  EXPECT_FALSE(is_match("a^b", "ab", false));
  EXPECT_TRUE(is_match("$^", "", false));
  EXPECT_FALSE(is_match("a$b", "ab", false));
}

TEST(Regex, RefusesByNameWhatNoAutomatonCanDo) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"a(?=b)", "look-ahead"},       {"a(?!b)", "look-ahead"},
      {"(?<=a)b", "look-behind"},     {"(?<!a)b", "look-behind"},
      {R"((a)\1)", "back-reference"}, {R"((?<n>a)\k<n>)", "back-reference"},
      {R"(a\b)", "word boundary"},    {"(?i)a", "flags"},
      {"(?>a)", "atomic group"},      {R"(\p{Script=Greek})", "Script=Greek"},
  };
  for (const auto& [pattern, name] : cases) {
    const Status status = refusal_of(pattern);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << pattern;
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

TEST(Regex, SaysWhereItIsNotOne) {
  EXPECT_EQ(refusal_of("ab)").message(), "at 3: ')' without a '(' before it");
  EXPECT_EQ(refusal_of("a[b").message(), "at 4: a ']' is missing");
  EXPECT_EQ(refusal_of("(a").message(), "at 3: a ')' is missing");
  EXPECT_EQ(refusal_of("*").message(), "at 1: nothing to repeat");
  EXPECT_EQ(refusal_of("a**").message(), "at 3: nothing to repeat");
  EXPECT_EQ(refusal_of("\\z").message(), "at 2: '\\z' is not an escape that ECMA-262 knows");
  for (const std::string_view pattern :
       {"a{2,1}", "[b-a]", "\\", "\\x4", "\\u{110000}", "\\uD83D", "\\c1", "^*", "\xFF", "\\p{L"})
    EXPECT_EQ(refusal_of(pattern).code(), StatusCode::kInvalidArgument) << pattern;
}

TEST(Regex, EndsAtItsLimitsHoweverDeepOrLargeItIs) {
  const auto nested = [](int depth) { return std::string(depth, '(') + "a" + std::string(depth, ')'); };
  EXPECT_TRUE(is_match(nested(200), "a"));
  EXPECT_NE(refusal_of(nested(201)).message().find("200 groups"), std::string::npos);
  EXPECT_EQ(refusal_of(std::string(60'000, '(')).code(), StatusCode::kInvalidArgument);
  for (const std::string_view pattern :
       {"(?:a{1,1000}){1,1000}", "[ab]*a[ab]{30}", "(?:a?){0,1000000}", "(?:){1000000}", "\\p{L}{1,100000}",
        "(?:(?:(?:a{9}){99}){999}){9999}", "a{4294967296}"})
    EXPECT_NE(refusal_of(pattern).message().find("limit"), std::string::npos) << pattern;
  EXPECT_TRUE(is_match("a{1,1000}", std::string(1000, 'a')));
  EXPECT_FALSE(is_match("a{1,1000}", std::string(1001, 'a')));
}

TEST(Regex, BecomesTheSmallestAutomaton) {
  EXPECT_EQ(compile_regex("(?:a|b)*abb", true)->state_count(), 4U);
  EXPECT_EQ(compile_regex("(((a*)*)*)*", true)->state_count(), 1U);
  EXPECT_TRUE(compile_regex("[]", true)->empty());
  EXPECT_EQ(compile_regex("abc|xbc", true)->state_count(), 4U);
}

TEST(Regex, IsAGrammarOfWholeTexts) {
  const auto grammar = compile_regex_grammar("[a-c]{2}\\d+");
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  EXPECT_TRUE(accepts(*grammar, "ab12"));
  EXPECT_FALSE(accepts(*grammar, "ab"));
  EXPECT_FALSE(accepts(*grammar, "xab12"));
  EXPECT_FALSE(compile_regex_grammar("a[]").ok());
}

TEST(DfaOperations, CombineLanguages) {
  const Dfa a = *compile_regex("[ab]{1,3}", true);
  const Dfa b = *compile_regex("b+|cc", true);
  const auto texts = {"a", "b", "bb", "bbb", "bbbb", "cc", "ab", "", "abab"};
  const Dfa both = *combine(a, b, DfaOperation::kIntersection);
  const Dfa either = *combine(a, b, DfaOperation::kUnion);
  const Dfa rest = *combine(a, b, DfaOperation::kDifference);
  for (const std::string_view text : texts) {
    EXPECT_EQ(both.matches(text), a.matches(text) && b.matches(text)) << text;
    EXPECT_EQ(either.matches(text), a.matches(text) || b.matches(text)) << text;
    EXPECT_EQ(rest.matches(text), a.matches(text) && !b.matches(text)) << text;
  }
  EXPECT_TRUE(combine(a, a, DfaOperation::kDifference)->empty());
}

TEST(DfaOperations, KnowTextsAndAllOthers) {
  const std::vector<std::string> texts = {"", "a", "ab", "\xC3\xA9"};
  const Dfa some = *text_set(texts);
  const Dfa others = *all_text_but(texts);
  for (const auto& text : texts) {
    EXPECT_TRUE(some.matches(text));
    EXPECT_FALSE(others.matches(text));
  }
  for (const std::string_view text : {"b", "aa", "abc", "\xC3\xA8", "\xE6\x97\xA5"}) {
    EXPECT_FALSE(some.matches(text));
    EXPECT_TRUE(others.matches(text));
  }
  EXPECT_FALSE(others.matches("\xC3"));
}

TEST(DfaOperations, MeasureTextsInCharacters) {
  const auto lengths = [](std::string_view pattern) {
    const TextLengths found = text_lengths(*compile_regex(pattern, true));
    return std::pair(found.shortest, found.longest);
  };
  EXPECT_EQ(lengths("\xE6\x97\xA5{2,5}a"), std::pair(3U, 6U));
  EXPECT_EQ(lengths("ab|c|"), std::pair(0U, 2U));
  EXPECT_EQ(lengths("a+"), std::pair(1U, UINT32_MAX));
}

}  // namespace
}  // namespace twostroke::grammar
