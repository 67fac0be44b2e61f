// Which bytes of a prompt are the template's own, and which came from the context.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/text/jinja/template.h"

namespace twostroke::jinja {
namespace {

using Json = nlohmann::ordered_json;

// The pieces in one line: what is not the template's own stands in « ».
std::string marked(const std::string& source, const Json& context, const RenderOptions& options = {}) {
  const Result<Template> parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.status().message();
  const Result<std::vector<Span>> spans = parsed->render_spans(context, options);
  if (!spans.ok()) return spans.status().message();
  std::string line;
  for (const Span& span : *spans) line += span.from_template ? span.text : "«" + span.text + "»";
  return line;
}

const Json kContext = {{"u", "User"}, {"pad", "  User  "}, {"list", {"a", "b"}}, {"n", 7}, {"d", {{"key", "value"}}}};

TEST(Spans, TellTheTemplatesTextFromTheContexts) {
  EXPECT_EQ(marked("<|im_start|>{{ u }}<|im_end|>", kContext), "<|im_start|>«User»<|im_end|>");
  EXPECT_EQ(marked("{{ '<|im_start|>' }}{{ '<|im_end|>' }}", kContext), "<|im_start|><|im_end|>");
}

TEST(Spans, JoinNeighboursOfTheSameKind) {
  const Result<std::vector<Span>> spans = Template::parse("a{{ 'b' }}{{ u }}{{ u }}c")->render_spans(kContext);
  ASSERT_TRUE(spans.ok());
  EXPECT_EQ(*spans, (std::vector<Span>{{"ab", true}, {"UserUser", false}, {"c", true}}));
}

TEST(Spans, GiveNoPieceForEmptyText) {
  const Result<std::vector<Span>> spans = Template::parse("{{ e }}")->render_spans({{"e", ""}});
  ASSERT_TRUE(spans.ok());
  EXPECT_TRUE(spans->empty());
}

TEST(Spans, FollowStringsThroughOperators) {
  EXPECT_EQ(marked("{{ '<' + u + '>' }}", kContext), "<«User»>");
  EXPECT_EQ(marked("{{ '<' ~ u ~ '>' ~ 1 }}", kContext), "<«User»>1");
  EXPECT_EQ(marked("{{ ('<' + u) * 2 }}", kContext), "<«User»<«User»");
  EXPECT_EQ(marked("{{ '[%s|%5s]' % (u, 'x') }}", kContext), "[«User»|    x]");
}

TEST(Spans, FollowStringsThroughSlices) {
  EXPECT_EQ(marked("{{ ('<<' + u + '>>')[1:-1] }}", kContext), "<«User»>");
  EXPECT_EQ(marked("{{ ('<' + u)[::-1] }}", kContext), "«resU»<");
  EXPECT_EQ(marked("{{ (u + '!')[-1] }}{{ (u + '!')[0] }}", kContext), "!«U»");
}

TEST(Spans, FollowStringsThroughFilters) {
  EXPECT_EQ(marked("{{ pad|trim }}.", kContext), "«User».");
  EXPECT_EQ(marked("{{ ('<' + u)|upper }}", kContext), "<«USER»");
  EXPECT_EQ(marked("{{ ('<' + u)|lower|title|capitalize }}", kContext), "<«user»");
  EXPECT_EQ(marked("{{ u|replace('s', '-') }}", kContext), "«U»-«er»");
  EXPECT_EQ(marked("{{ 'a-b'|replace('-', u) }}", kContext), "a«User»b");
  EXPECT_EQ(marked("{{ list|join(', ') }}", kContext), "«a», «b»");
  EXPECT_EQ(marked("{{ u|indent(2, true) }}", kContext), "  «User»");
  EXPECT_EQ(marked("{{ u|default('x') }}{{ missing|default('x') }}", kContext), "«User»x");
  EXPECT_EQ(marked("{{ u|truncate(3, true, '…', 0) }}", kContext), "«Us»…");
  EXPECT_EQ(marked("{{ u|center(8) }}", kContext), "  «User»  ");
  EXPECT_EQ(marked("{{ (u ~ '<')|e }}", kContext), "«User»&lt;");
  EXPECT_EQ(marked("{{ list|map('upper')|first }}-{{ list|last }}", kContext), "«A»-«b»");
  EXPECT_EQ(marked("{{ u|list|join }}", kContext), "«User»");
}

TEST(Spans, FollowStringsThroughMethods) {
  EXPECT_EQ(marked("{{ pad.strip() }}.", kContext), "«User».");
  EXPECT_EQ(marked("{{ ('a,' + u).split(',')|join('|') }}", kContext), "a|«User»");
  EXPECT_EQ(marked("{{ '<{}>'.format(u) }}{{ '{:>6}'.format(u) }}", kContext), "<«User»>  «User»");
  EXPECT_EQ(marked("{{ u.format() }}", kContext), "«User»");
  EXPECT_EQ(marked("{{ '-'.join(list) }}", kContext), "«a»-«b»");
  EXPECT_EQ(marked("{{ u.replace('User', '<|im_end|>') }}", kContext), "<|im_end|>");
}

TEST(Spans, MarkStringsInPrintedAndSerialisedValues) {
  EXPECT_EQ(marked("{{ d }}", kContext), "{'«key»': '«value»'}");
  EXPECT_EQ(marked("{{ d|tojson }}", kContext), R"({"«key»": "«value»"})");
  EXPECT_EQ(marked("{{ {'role': u}|tojson }}", kContext), R"({"role": "«User»"})");
  EXPECT_EQ(marked("{{ d.items() }}", kContext), "dict_items([('«key»', '«value»')])");
  EXPECT_EQ(marked("{{ namespace(x=u) }}", kContext), "<Namespace {'x': '«User»'}>");
  EXPECT_EQ(marked("{{ n }}{{ list|length }}", kContext), "72") << "digits spell no control token";
}

TEST(Spans, FollowStringsThroughVariablesMacrosAndBlocks) {
  EXPECT_EQ(marked("{% set x = '<' + u %}{{ x }}", kContext), "<«User»");
  EXPECT_EQ(marked("{% set x %}<{{ u }}>{% endset %}{{ x }}", kContext), "<«User»>");
  EXPECT_EQ(marked("{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(u) }}{{ m('x') }}", kContext), "[«User»][x]");
  EXPECT_EQ(marked("{% filter upper %}a{{ u }}{% endfilter %}", kContext), "A«USER»");
  EXPECT_EQ(marked("{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ u }}{% endcall %}", kContext),
            "(«User»)");
  EXPECT_EQ(
      marked("{% set ns = namespace(s='') %}{% for x in list %}{% set ns.s = ns.s + x + ';' %}{% endfor %}{{ ns.s }}",
             kContext),
      "«a»;«b»;");
}

TEST(Spans, FollowKeysThroughKeywordArguments) {
  EXPECT_EQ(marked("{{ dict(**d) }}{{ dict(key=1) }}", kContext), "{'«key»': '«value»'}{'key': 1}");
  EXPECT_EQ(marked("{{ namespace(**d) }}", kContext), "<Namespace {'«key»': '«value»'}>");
  EXPECT_EQ(marked("{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(**d) }}", kContext), "{'«key»': '«value»'}");
}

TEST(Spans, NeverTrustACharacterMadeFromANumber) {
  EXPECT_EQ(marked("{{ '%c' % n }}", {{"n", 60}}), "«<»");
  EXPECT_EQ(marked("{{ '{:c}'.format(n) }}", {{"n", 60}}), "«<»");
}

TEST(Spans, TrustTheVariablesThatTheCallerNames) {
  const Json context = {{"bos_token", "<s>"}, {"u", "<s>"}};
  RenderOptions options;
  options.trusted_variables = {"bos_token"};
  EXPECT_EQ(marked("{{ bos_token }}{{ u }}", context, options), "<s>«<s>»");
  EXPECT_EQ(marked("{{ bos_token }}{{ u }}", context), "«<s><s>»");
}

TEST(Spans, TakeParsedJsonForWhatItsTextWas) {
  RenderOptions options;
  options.from_json = true;
  EXPECT_EQ(marked("{{ (j|from_json).a }}{{ ('{\"a\": \"b\"}'|from_json).a }}", {{"j", R"({"a": "x"})"}}, options),
            "«x»b");
}

}  // namespace
}  // namespace twostroke::jinja
