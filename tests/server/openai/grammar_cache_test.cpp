// Compiled once, found again, and never more of them than the limits allow.
#include "server/openai/grammar_cache.h"

#include <gtest/gtest.h>

#include "server/openai/structured_output.h"
#include "server/text/grammar/gbnf.h"
#include "server/text/grammar/matcher.h"

namespace twostroke::openai {
namespace {

// Counts compilations.
struct Compiler {
  int compiled = 0;
  std::shared_ptr<const grammar::Grammar> get(GrammarCache& cache, const std::string& key) {
    GrammarCache::Compiled result = cache.get(key, [this] {
      ++compiled;
      return grammar::compile_gbnf(R"(root ::= "a")");
    });
    EXPECT_TRUE(result.ok());
    return result.ok() ? *result : nullptr;
  }
};

TEST(GrammarCache, CompilesEachSourceOnce) {
  GrammarCache cache;
  Compiler compiler;
  const auto first = compiler.get(cache, "x");
  EXPECT_EQ(first, compiler.get(cache, "x"));
  EXPECT_NE(first, compiler.get(cache, "y"));
  EXPECT_EQ(compiler.compiled, 2);
}

TEST(GrammarCache, TheLeastRecentlyUsedLeaves) {
  GrammarCache cache(GrammarCacheLimits{.entries_max = 2});
  Compiler compiler;
  for (const char* key : {"x", "y", "x", "z"}) compiler.get(cache, key);
  EXPECT_EQ(cache.size(), 2U);
  compiler.get(cache, "x");
  EXPECT_EQ(compiler.compiled, 3) << "x was used after y";
  compiler.get(cache, "y");
  EXPECT_EQ(compiler.compiled, 4);
}

TEST(GrammarCache, SourcesTogetherHaveALimit) {
  GrammarCache cache(GrammarCacheLimits{.source_bytes_max = 10});
  Compiler compiler;
  for (const char* key : {"12345", "54321", "123456"}) compiler.get(cache, key);
  EXPECT_EQ(cache.size(), 1U);
  compiler.get(cache, "01234567890");
  EXPECT_EQ(cache.size(), 1U) << "too long to be kept at all";
}

TEST(GrammarCache, FailuresAreNotKept) {
  GrammarCache cache;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(cache.get("x", [] { return grammar::compile_gbnf("no grammar"); }).ok());
  }
  EXPECT_EQ(cache.size(), 0U);
}

TEST(StructuredOutput, EachKindBecomesAGrammarOfItsTexts) {
  using Kind = OutputConstraint::Kind;
  const std::tuple<OutputConstraint, std::string, std::string> cases[] = {
      {{.kind = Kind::kJsonObject}, "{}", "[]"},
      {{.kind = Kind::kJsonSchema, .schema = Json::parse(R"({"enum": [1, 2]})")}, "2", "3"},
      {{.kind = Kind::kRegex, .text = "a+b?"}, "aab", "b"},
      {{.kind = Kind::kChoice, .choices = {"red", "redder"}}, "redder", "reddest"},
      {{.kind = Kind::kGbnf, .text = R"(root ::= [x-z])"}, "y", "a"},
  };
  GrammarCache cache;
  const auto accepts = [](const std::shared_ptr<const grammar::Grammar>& compiled, const std::string& text) {
    grammar::Matcher matcher(compiled);
    return matcher.accept(text) && matcher.may_end();
  };
  for (const auto& [constraint, in, out] : cases) {
    const auto compiled = compile_constraint(constraint, cache);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    EXPECT_TRUE(accepts(*compiled, in)) << in;
    EXPECT_FALSE(accepts(*compiled, out)) << out;
    EXPECT_EQ(*compile_constraint(constraint, cache), *compiled);
  }
  EXPECT_EQ(cache.size(), std::size(cases));
}

TEST(StructuredOutput, RefusesAKeywordThatItCannotHoldATextTo) {
  GrammarCache cache;
  const OutputConstraint constraint{
      .kind = OutputConstraint::Kind::kJsonSchema,
      .schema = Json::parse(R"({"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": true}}})")};
  const auto compiled = compile_constraint(constraint, cache);
  ASSERT_FALSE(compiled.ok());
  EXPECT_EQ(compiled.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(compiled.status().message().find("properties.tags"), std::string::npos) << compiled.status().message();
  EXPECT_NE(compiled.status().message().find("'uniqueItems'"), std::string::npos) << compiled.status().message();
}

}  // namespace
}  // namespace twostroke::openai
