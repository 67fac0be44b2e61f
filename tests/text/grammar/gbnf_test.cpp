#include "server/text/grammar/gbnf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/text/grammar/vocabularies.h"
#include "tests/text/tokenizer/tokenizer_files.h"

namespace twostroke::grammar {
namespace {

std::string gbnf_refusal(std::string_view text) {
  const auto grammar = compile_gbnf(text);
  EXPECT_FALSE(grammar.ok()) << text;
  return grammar.ok() ? "" : grammar.status().message();
}

// The tests that llama.cpp has for GBNF. In the files of two grammars, a token is written as a byte that is not UTF-8
// (in JSON, U+FFFD) and four bytes of its number, the highest first.
bool accepts_with_tokens(const std::shared_ptr<const Grammar>& grammar, const std::string& text) {
  const std::string mark = "\xEF\xBF\xBD";
  Matcher matcher(grammar);
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, mark.size(), mark) == 0 && i + mark.size() + 4 <= text.size()) {
      uint32_t token = 0;
      for (size_t j = 0; j < 4; ++j) token = token << 8 | static_cast<unsigned char>(text[i + mark.size() + j]);
      if (!matcher.accept_control(static_cast<TokenId>(token))) return false;
      i += mark.size() + 4;
      continue;
    }
    const size_t end = std::min(text.find(mark, i), text.size());
    if (!matcher.accept(std::string_view(text).substr(i, end - i))) return false;
    i = end;
  }
  return matcher.may_end();
}

TEST(Gbnf, ReadsTheGrammarsOfLlamaCppAsItDoes) {
  const std::string path = std::string(TWOSTROKE_SHARED_DIR) + "/json_schema/llamacpp_grammar_integration.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  std::ifstream file(path);
  int grammars = 0;
  for (const auto& test : nlohmann::json::parse(file)) {
    if (test["kind"] == "schema") continue;
    ++grammars;
    SCOPED_TRACE(test["desc"].get<std::string>());
    const auto grammar = gbnf(test["gbnf"].get<std::string>());
    ASSERT_TRUE(grammar);
    for (const std::string text : test["pass"]) EXPECT_TRUE(accepts_with_tokens(grammar, text)) << text;
    for (const std::string text : test["fail"]) EXPECT_FALSE(accepts_with_tokens(grammar, text)) << text;
  }
  EXPECT_EQ(grammars, 14);
}

TEST(Gbnf, KnowsItsEscapes) {
  const auto grammar = gbnf(R"(root ::= "\n\t\r\\\"\x41\u00E9\U0001F600" [\]\[\x30-\x39\u4E00-\u9FFF])");
  EXPECT_TRUE(accepts(grammar, "\n\t\r\\\"A\xC3\xA9\xF0\x9F\x98\x80]"));
  EXPECT_TRUE(accepts(grammar, "\n\t\r\\\"A\xC3\xA9\xF0\x9F\x98\x80[5") == false);
  EXPECT_TRUE(accepts(grammar, "\n\t\r\\\"A\xC3\xA9\xF0\x9F\x98\x80\xE4\xB8\xAD"));
  EXPECT_FALSE(accepts(grammar, "\n\t\r\\\"A\xC3\xA9\xF0\x9F\x98\x80x"));
}

TEST(Gbnf, ReadsBackslashXAsACodePoint) { EXPECT_TRUE(accepts(gbnf(R"(root ::= "\xE9")"), "\xC3\xA9")); }

TEST(Gbnf, TakesWholeCharactersWithClassesAndDots) {
  const auto grammar = gbnf("root ::= [^a-y\xC3\xA9] .");
  EXPECT_TRUE(accepts(grammar, "z\n"));
  EXPECT_TRUE(accepts(grammar, "\xE4\xB8\xAD\xF0\x9F\x98\x80"));
  EXPECT_FALSE(accepts(grammar, "bz"));
  EXPECT_FALSE(accepts(grammar, "\xC3\xA9z"));
  EXPECT_FALSE(accepts(grammar, "z\xE4\xB8"));          // an incomplete character
  EXPECT_FALSE(accepts(grammar, "z\xC0\x80"));          // an overlong one
  EXPECT_FALSE(accepts(grammar, "z\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(accepts(grammar, "z\xF4\x90\x80\x80"));  // beyond Unicode
}

TEST(Gbnf, CountsRepetitions) {
  const auto grammar = gbnf(R"(root ::= "ab"{2} "c"{1,} "d"{0,2} [e-g]{ 1 , 3 })");
  EXPECT_TRUE(accepts(grammar, "ababcccddefg"));
  EXPECT_TRUE(accepts(grammar, "ababce"));
  EXPECT_FALSE(accepts(grammar, "abce"));
  EXPECT_FALSE(accepts(grammar, "ababcddde"));
  EXPECT_FALSE(accepts(grammar, "ababcdefgf"));
}

TEST(Gbnf, HoldsARuleOverSeveralLinesWithinParenthesesAndBehindBars) {
  const auto grammar = gbnf(
      "# the beginning\r\n"
      "root ::= ( # a group\n  \"a\" |\n\n \"b\"\n  my-rule_2* ) \"!\" |\n \"c\" # the end\n"
      "  | \"d\"\n"
      "my-rule_2 ::=\n  \"x\"\n\n");
  for (const char* text : {"a!", "bxx!", "c", "d"}) EXPECT_TRUE(accepts(grammar, text)) << text;
  for (const char* text : {"a", "xx!", "e", ""}) EXPECT_FALSE(accepts(grammar, text)) << text;
}

TEST(Gbnf, SaysOnWhichLineItsErrorsAre) {
  EXPECT_EQ(gbnf_refusal("root ::= \"a\"\nb ::= \"x\n"), "line 2: a text has no '\"' at its end");
  EXPECT_EQ(gbnf_refusal("root ::= a\na ::= b\n\nc ::= \"x\""), "line 2: there is no rule 'b'");
  EXPECT_EQ(gbnf_refusal("a ::= \"x\""), "the grammar has no rule 'root', where its texts begin");
  EXPECT_EQ(gbnf_refusal(""), "the grammar has no rule 'root', where its texts begin");
  EXPECT_EQ(gbnf_refusal("root ::= (\"a\"\n\n"), "line 3: expected ')', found the end");
  EXPECT_EQ(gbnf_refusal("root ::= \"a\")"), "line 1: expected the end of the line, found ')'");
  EXPECT_EQ(gbnf_refusal("root = \"a\""), "line 1: expected '::=' behind 'root', found '='");
  EXPECT_EQ(gbnf_refusal("\n\nroot ::= *"), "line 3: there is nothing before '*'");
  EXPECT_EQ(gbnf_refusal("root ::= [a"), "line 1: a class has no ']' at its end");
  EXPECT_EQ(gbnf_refusal("root ::= []"), "line 1: a class needs at least one character");
  EXPECT_EQ(gbnf_refusal("root ::= [z-a]"), "line 1: a range ends before it begins");
  EXPECT_EQ(gbnf_refusal("root ::= \"\\q\""), "line 1: unknown escape '\\q'");
  EXPECT_EQ(gbnf_refusal("root ::= \"\\x4\""), "line 1: expected 2 hexadecimal digits, found '\"'");
  EXPECT_EQ(gbnf_refusal("root ::= \"\\uD800\""), "line 1: an escape names no Unicode character");
  EXPECT_EQ(gbnf_refusal("root ::= \"a\"{3,1}"), "line 1: a repetition's highest number is below its lowest");
  EXPECT_EQ(gbnf_refusal("root ::= \"a\"{x}"), "line 1: expected a number of repetitions, found 'x'");
  EXPECT_EQ(gbnf_refusal("root ::= \"a\"{99999999999}"), "line 1: a number of repetitions is above 1000000");
  EXPECT_EQ(gbnf_refusal("root ::= \"a\"\nroot ::= \"b\""), "line 2: rule 'root' is defined twice");
  EXPECT_EQ(gbnf_refusal("root ::= \"\xFF\""), "line 1: the grammar is not UTF-8");
  EXPECT_EQ(gbnf_refusal(std::string_view("root ::= \0", 10)), "line 1: unexpected the byte 0x00");
  EXPECT_EQ(gbnf_refusal("root ::= <think>"), "line 1: there is no vocabulary to look up <think> in; write <[number]>");
  EXPECT_EQ(gbnf_refusal("root ::= \"a\" root"), "the grammar has no text: every way through it goes on for ever");
}

TEST(Gbnf, RefusesGroupsThatNestTooDeep) {
  const std::string deep = "root ::= " + std::string(60'000, '(') + "\"a\"" + std::string(60'000, ')');
  EXPECT_EQ(gbnf_refusal(deep), "line 1: groups nest more than 200 deep");
  const std::string fits = "root ::= " + std::string(200, '(') + "\"a\"" + std::string(200, ')');
  EXPECT_TRUE(accepts(gbnf(fits), "a"));
}

TEST(Gbnf, FindsTokensByTheirTextInAVocabulary) {
  TokenizerSpec spec = byte_level_spec("gpt-2", {"a b"});
  const TokenId think = add_token(spec, "<think>", TokenType::kControl);
  const auto tokenizer = make_tokenizer(spec);
  const auto grammar = compile_gbnf("root ::= <think> \"a\" !<think>", tokenizer.get());
  ASSERT_TRUE(grammar.ok()) << grammar.status().message();
  Matcher matcher(*grammar);
  EXPECT_FALSE(Matcher(matcher).accept("a"));
  EXPECT_TRUE(matcher.accept_control(think));
  EXPECT_TRUE(matcher.accept("a"));
  EXPECT_FALSE(Matcher(matcher).accept_control(think));
  EXPECT_TRUE(matcher.accept_token('z', "z"));
  EXPECT_TRUE(matcher.must_end());
  EXPECT_EQ(compile_gbnf("root ::= <other>", tokenizer.get()).status().message(),
            "line 1: the vocabulary has no token <other>");
}

}  // namespace
}  // namespace twostroke::grammar
