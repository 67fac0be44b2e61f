// The language beyond what the published cases cover, the dialect's choices, and what failures say.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "server/text/jinja/template.h"

namespace twostroke::jinja {
namespace {

using Json = nlohmann::ordered_json;

// The output, or "error: " and the message.
std::string rendered(const std::string& source, const Json& context = Json::object(),
                     const RenderOptions& options = {}) {
  const Result<Template> parsed = Template::parse(source);
  if (!parsed.ok()) return "error: " + parsed.status().message();
  const Result<std::string> output = parsed->render(context, options);
  return output.ok() ? *output : "error: " + output.status().message();
}

// Failures.

TEST(TemplateErrors, NameTheLineOfTheSource) {
  EXPECT_EQ(rendered("a\n\n{{ x.y }}"), "error: line 3: 'x' is undefined");
  EXPECT_EQ(rendered("\n{% if x %}\n{% endfor %}"), "error: line 3: Encountered unknown tag 'endfor'");
  EXPECT_EQ(rendered("{{ 1 +\n\n }}"), "error: line 3: unexpected '}}'");
  EXPECT_EQ(rendered("{#\n\n#}\n{{ [1].x.y }}"), "error: line 4: 'list object' has no attribute 'x'");
  EXPECT_EQ(rendered("{% raw %}\n\n{% endraw %}\n{{ x() }}"), "error: line 4: 'x' is undefined");
  EXPECT_EQ(rendered("a\r\nb\rc\n{{ x() }}"), "error: line 4: 'x' is undefined");
}

TEST(TemplateErrors, NameTheLineInsideOfTheMacro) {
  EXPECT_EQ(rendered("{% macro m(a) %}\n{{ a.b.c }}\n{% endmacro %}\n\n{{ m({}) }}"),
            "error: line 2: 'dict object' has no attribute 'b'");
  EXPECT_EQ(rendered("{% macro m() %}\n\n{% endmacro %}\n{{ m() + 1 }}"),
            "error: line 4: can only concatenate str (not \"int\") to str");
}

TEST(TemplateErrors, SayWhatRaiseExceptionSays) {
  EXPECT_EQ(rendered("\n{{ raise_exception('roles must alternate') }}"), "error: line 2: roles must alternate");
}

TEST(TemplateErrors, NameUnknownFiltersTestsMethodsAndTags) {
  EXPECT_EQ(rendered("{{ x|frobnicate }}"), "error: line 1: No filter named 'frobnicate'.");
  EXPECT_EQ(rendered("{{ x is frobnicated }}"), "error: line 1: No test named 'frobnicated'.");
  EXPECT_EQ(rendered("{{ 'x'.frobnicate() }}"), "error: line 1: 'str object' has no attribute 'frobnicate'");
  EXPECT_EQ(rendered("{% do x %}"), "error: line 1: Encountered unknown tag 'do'");
  EXPECT_EQ(rendered("{{ [1]|map('frobnicate')|list }}"), "error: line 1: No filter named 'frobnicate'.");
  EXPECT_EQ(rendered("{{ [1]|select('frobnicated')|list }}"), "error: line 1: No test named 'frobnicated'.");
}

TEST(TemplateErrors, WaitForAnUnknownFilterThatIsNotReached) {
  EXPECT_EQ(rendered("{% if x %}{{ x|frobnicate }}{% endif %}."), ".");
  EXPECT_EQ(rendered("{% if not x %}{{ x|frobnicate }}{% endif %}."),
            "error: line 1: No filter named 'frobnicate' found.");
}

TEST(TemplateErrors, RefuseWhatNeedsOtherTemplates) {
  for (const std::string tag : {"include 'a'", "import 'a' as b", "from 'a' import b", "extends 'a'"}) {
    const Result<Template> parsed = Template::parse("\n{% " + tag + " %}");
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.status().code(), StatusCode::kUnsupported);
    EXPECT_EQ(parsed.status().message(),
              "line 2: the tag '" + tag.substr(0, tag.find(' ')) + "' is refused: a chat template cannot load others");
  }
}

TEST(TemplateErrors, RefuseSourceThatIsNotUtf8) {
  EXPECT_EQ(rendered("a\xFF"), "error: the template is not valid UTF-8");
  EXPECT_EQ(rendered("{{ s }}", {{"s", "a\xC3"}}), "error: a string in the template's context is not valid UTF-8");
}

TEST(TemplateErrors, RefuseAContextThatIsNoObject) {
  EXPECT_EQ(rendered("x", Json::array()), "error: the context of a template must be a JSON object");
}

TEST(TemplateErrors, ReportIntegersThatDoNotFit) {
  EXPECT_EQ(rendered("{{ 9223372036854775807 + 1 }}"), "error: line 1: the result of + does not fit a 64-bit integer");
  EXPECT_EQ(rendered("{{ 10 ** 19 }}"), "error: line 1: the result of ** or pow() does not fit a 64-bit integer");
  EXPECT_EQ(rendered("{{ 2 ** 62 * 2 }}"), "error: line 1: the result of * does not fit a 64-bit integer");
  EXPECT_EQ(rendered("{{ -9223372036854775807 - 1 }}"), "-9223372036854775808");
  EXPECT_EQ(rendered("{{ (-9223372036854775807 - 1) // -1 }}"),
            "error: line 1: the result of // does not fit a 64-bit integer");
  EXPECT_EQ(rendered("{{ 9223372036854775808 }}"),
            "error: line 1: the integer 9223372036854775808 does not fit 64 bits with a sign");
  EXPECT_EQ(rendered("{{ n }}", {{"n", 18446744073709551615u}}), "1.8446744073709552e+19");
}

TEST(TemplateErrors, HideTheInternalsOfValues) {
  EXPECT_EQ(rendered("{{ ''.__class__ }}"), "");
  EXPECT_EQ(rendered("{{ ''.__class__.__mro__ }}"),
            "error: line 1: access to attribute '__class__' of 'str' object is unsafe.");
  EXPECT_EQ(rendered("{{ ''['__class__']['__base__'] }}"),
            "error: line 1: access to attribute '__class__' of 'str' object is unsafe.");
  EXPECT_EQ(rendered("{{ '{0.__class__.__name__}'.format(1) }}"),
            "error: line 1: access to attribute '__class__' of 'int' object is unsafe.");
  EXPECT_EQ(rendered("{{ raise_exception.__globals__.x }}"),
            "error: line 1: access to attribute '__globals__' of 'function' object is unsafe.");
}

// The dialect.

TEST(TemplateDialect, KeepsContainersAsTheyAreUnlessAllowed) {
  const std::string source = "{% set x = [1] %}{% set _ = x.append(2) %}{{ x }}";
  EXPECT_EQ(rendered(source), "error: line 1: access to attribute 'append' of 'list' object is unsafe.");
  RenderOptions options;
  options.mutable_containers = true;
  EXPECT_EQ(rendered(source, Json::object(), options), "[1, 2]");
  EXPECT_EQ(
      rendered(
          "{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}, c=3) %}{{ d }}{{ d.pop('a') }}{{ d.popitem() }}{{ d }}",
          Json::object(), options),
      "{'a': 1, 'b': 2, 'c': 3}1('c', 3){'b': 2}");
  EXPECT_EQ(rendered("{% set x = [3, 1] %}{% set _ = x.extend([2]) or x.sort() or x.insert(0, 9) or x.reverse() or "
                     "x.remove(1) %}{{ x }}",
                     Json::object(), options),
            "[3, 2, 9]");
}

TEST(TemplateDialect, ChangesNothingOfTheCallersContext) {
  const Json context = {{"x", {1}}};
  RenderOptions options;
  options.mutable_containers = true;
  EXPECT_EQ(rendered("{% set _ = x.append(2) %}{{ x }}", context, options), "[1, 2]");
  EXPECT_EQ(context.dump(), R"({"x":[1]})");
}

TEST(TemplateDialect, HasFromJsonOnlyWhereItIsAskedFor) {
  const std::string source =
      "{{ 'from_json' is filter }}{% if true %}{{ ('[1, {\"a\": null}]'|from_json)[1] }}{% endif %}";
  EXPECT_EQ(rendered(source), "error: line 1: No filter named 'from_json' found.");
  RenderOptions options;
  options.from_json = true;
  EXPECT_EQ(rendered(source, Json::object(), options), "True{'a': None}");
  EXPECT_EQ(rendered("{{ '{'|from_json }}", Json::object(), options),
            "error: line 1: filter 'from_json': the text is not JSON");
}

TEST(TemplateDialect, FormatsTheTimeThatTheCallerGives) {
  RenderOptions options;
  options.now = {2026, 7, 1, 9, 5, 3};
  EXPECT_EQ(rendered("{{ strftime_now('%d %b %Y') }}", Json::object(), options), "01 Jul 2026");
}

TEST(TemplateDialect, LetsVariablesHideFunctions) { EXPECT_EQ(rendered("{{ range }}", {{"range", "mine"}}), "mine"); }

// Scopes.

TEST(TemplateScopes, KeepWhatABlockSetsInsideOfIt) {
  EXPECT_EQ(rendered("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}"), "21");
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{{ x|default('-') }}{% set x = i %}{% endfor %}"), "--");
  EXPECT_EQ(rendered("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(rendered("{% with x = 1, y = 2 %}{{ x + y }}{% endwith %}{{ x }}"), "3");
  EXPECT_EQ(rendered("{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"), "21");
  EXPECT_EQ(rendered("{% set x = 1 %}{% set y %}{% set x = 2 %}{% endset %}{{ x }}"), "1");
}

TEST(TemplateScopes, ShowAMacroTheVariablesAroundItsDefinition) {
  EXPECT_EQ(rendered("{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}"), "1");
  EXPECT_EQ(rendered("{% macro m() %}{{ x }}{% endmacro %}{% for x in [1] %}{{ m() }}{% endfor %}"), "");
  EXPECT_EQ(rendered("{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}"), "12");
}

TEST(TemplateScopes, KeepTheRoundOfALoopThatAMacroSaw) {
  EXPECT_EQ(rendered("{% set ns = namespace(m=[]) %}{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}"
                     "{% set ns.m = ns.m + [m] %}{% endfor %}{{ ns.m[0]() }}{{ ns.m[1]() }}"),
            "12");
}

// Loops.

TEST(TemplateLoops, AskTheConditionWhenTheyComeToAnItem) {
  EXPECT_EQ(rendered("{% set ns = namespace(done=false) %}{% for x in [1, 2, 3] if not ns.done %}{{ x }}{% set ns.done "
                     "= true %}{% endfor %}"),
            "1");
  EXPECT_EQ(rendered("{% for x in range(10) if x is odd %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not "
                     "loop.last }}{% endfor %}"),
            "1/5:1,2/5:3,3/5:5,4/5:7,5/5:9");
}

TEST(TemplateLoops, CallThemselvesOnNestedItems) {
  EXPECT_EQ(rendered("{% for x in tree recursive %}{{ x.n }}@{{ loop.depth }}{% if x.sub %}({{ loop(x.sub) }}){% endif "
                     "%}{% endfor %}",
                     {{"tree", {{{"n", 1}, {"sub", {{{"n", 2}}, {{"n", 3}}}}}, {{"n", 4}}}}}),
            "1@1(2@23@2)4@1");
}

TEST(TemplateLoops, BreakAndContinueThroughCaptures) {
  EXPECT_EQ(rendered("{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x == 3 %}{% break %}{% "
                     "endif %}{{ x }}{% endfor %}"),
            "02");
  EXPECT_EQ(rendered("{% for x in [1, 2] %}a{% set y %}b{% break %}{% endset %}c{% endfor %}."), "a.");
  EXPECT_EQ(rendered("{% break %}"), "error: line 1: 'break' outside of a loop");
  EXPECT_EQ(rendered("{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}"),
            "error: line 1: 'break' outside of a loop");
}

TEST(TemplateLoops, UseAnIteratorUp) {
  EXPECT_EQ(rendered("{% set g = [1, 2, 3]|map('string') %}{{ g|first }}{{ g|join }}{{ g|join }}."), "123.");
  EXPECT_EQ(rendered("{{ [1]|map('string')|length }}"), "error: line 1: object of type 'generator' has no len()");
  EXPECT_EQ(rendered("{{ ([1]|map('string'))|tojson }}"),
            "error: line 1: Object of type generator is not JSON serializable");
}

// Macros.

TEST(TemplateMacros, CollectWhatNoParameterTakes) {
  EXPECT_EQ(rendered("{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}"),
            "1(2, 3){'k': 4}");
  EXPECT_EQ(rendered("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
            "error: line 1: macro 'm' takes not more than 1 argument(s), and 2 are given");
  EXPECT_EQ(rendered("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}"),
            "error: line 1: macro 'm' takes no keyword argument 'b'");
  EXPECT_EQ(
      rendered("{% macro m(a, b=a + 1) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(*[5, 6]) }}{{ m(**{'a': 8}) }}"),
      "125689");
}

// Values.

TEST(TemplateValues, PrintFloatsAsPythonDoes) {
  EXPECT_EQ(rendered("{{ [1.0, 0.1, 1e15, 1e16, 1e-4, 1e-5, 123456789.125, -0.0, 1e300 * 1e10] }}"),
            "[1.0, 0.1, 1000000000000000.0, 1e+16, 0.0001, 1e-05, 123456789.125, -0.0, inf]");
  EXPECT_EQ(rendered("{{ [1 / 3, 2 / 1, 7 // 2.0, -7 // 2, -7 % 3, 7 % -3, -7.5 % 2, 2 ** -1, 2 ** 0.5] }}"),
            "[0.3333333333333333, 2.0, 3.0, -4, 2, -2, 0.5, 0.5, 1.4142135623730951]");
  EXPECT_EQ(rendered("{{ [2.5|round, 3.5|round, 2.675|round(2), 1234|round(-2), 2.1|round(0, 'ceil'), 42|round] }}"),
            "[2.0, 4.0, 2.67, 1200, 3.0, 42]");
}

TEST(TemplateValues, QuoteStringsAsPythonDoes) {
  EXPECT_EQ(rendered("{{ ['a', \"it's\", 'say \"x\"', '\\'\"', 'a\\n\\t\\\\', '\\x00\\x7f\\xa0\\u200b', 'é✓'] }}"),
            "['a', \"it's\", 'say \"x\"', '\\'\"', 'a\\n\\t\\\\', '\\x00\\x7f\\xa0\\u200b', 'é✓']");
}

TEST(TemplateValues, CompareAcrossTypesAsPythonDoes) {
  EXPECT_EQ(
      rendered("{{ 1 == true }}{{ '1' == 1 }}{{ none == false }}{{ [1] == (1,) }}{{ x == y }}{{ 1 < 2 < 3 > 2 }}"),
      "TrueFalseFalseFalseTrueTrue");
  EXPECT_EQ(rendered("{{ 9007199254740993 == 9007199254740992.0 }}{{ {1: 'a'}[true] }}{{ {1: 'a'}[1.0] }}"), "Falseaa");
  EXPECT_EQ(rendered("{{ [1, 'a'] < [1, 'b'] }}{{ 'Z' < 'a' < 'é' }}"), "TrueTrue");
  EXPECT_EQ(rendered("{{ 1 < 'a' }}"), "error: line 1: '<' not supported between instances of 'int' and 'str'");
  EXPECT_EQ(rendered("{{ {[1]: 2} }}"), "error: line 1: unhashable type: 'list'");
}

TEST(TemplateValues, CountCharactersNotBytes) {
  EXPECT_EQ(rendered("{{ 'aé✓😀'|length }}{{ 'aé✓😀'[2] }}{{ 'aé✓😀'[-1:] }}{{ 'aé✓😀'[::-1] }}{{ 'aé✓😀'.find('😀') }}"),
            "4✓😀😀✓éa3");
  EXPECT_EQ(rendered("{{ 'straße'|upper }}{{ 'ΟΔΟΣ'|lower }}{{ 'ǆ'|capitalize }}{{ 'éa b'|title }}"),
            "STRASSEοδοςǅÉa B");
}

TEST(TemplateValues, FindKeysOfLargeDicts) {
  Json large;
  for (int i = 0; i < 200; ++i) large["key" + std::to_string(i)] = i;
  RenderOptions options;
  options.mutable_containers = true;
  EXPECT_EQ(rendered("{{ d.key0 }} {{ d['key199'] }} {{ 'key200' in d }} {{ d.pop('key7') }} {{ 'key7' in d }} {{ "
                     "d.key8 }} {{ d|length }}",
                     {{"d", large}}, options),
            "0 199 False 7 False 8 199");
}

TEST(TemplateValues, EscapeHtmlOnlyWhereMarkupIsInvolved) {
  EXPECT_EQ(rendered("{{ '<' }}{{ '<'|e }}{{ ('<b>'|safe) + '<' }}{{ '<'|e|e }}{{ '<'|e|forceescape }}"),
            "<&lt;<b>&lt;&lt;&amp;lt;");
}

TEST(TemplateValues, SerialiseAsPythonsJson) {
  EXPECT_EQ(rendered("{{ {'a': [1, 2.0, true, none, 'é\\n'], 2: {}, none: []}|tojson }}"),
            R"({"a": [1, 2.0, true, null, "é\n"], "2": {}, "null": []})");
  EXPECT_EQ(rendered("{{ {'b': [], 'a': {'c': 1}}|tojson(indent='\\t', sort_keys=true) }}"),
            "{\n\t\"a\": {\n\t\t\"c\": 1\n\t},\n\t\"b\": []\n}");
  EXPECT_EQ(rendered("{{ missing|tojson }}"), "error: line 1: Object of type Undefined is not JSON serializable");
}

// Whitespace.

TEST(TemplateWhitespace, FollowsTheSignsInTags) {
  EXPECT_EQ(rendered("  {%+ if true %}\nx\n  {% endif +%}\ny"), "  x\n\ny");
  EXPECT_EQ(rendered("a  {{- ' b ' -}}  c"), "a b c");
  EXPECT_EQ(rendered("a\n  {#- c -#}\n b"), "ab");
  EXPECT_EQ(rendered("  {# c #}\nb"), "b");
  EXPECT_EQ(rendered("x\n\n"), "x\n");
  EXPECT_EQ(rendered("{% raw -%}\n {{ x }} {%- endraw %}\ny"), "{{ x }}y");
  EXPECT_EQ(rendered("{{ '{%' }}{{ \"}}\" }}{{ {'a': {'b': 1}}['a']['b'] }}"), "{%}}1");
}

// Threads.

TEST(Template, RendersOnManyThreadsAtOnce) {
  const Result<Template> parsed =
      Template::parse("{% for m in messages %}<|{{ m.role|upper }}|>{{ 'lit' ~ m.content }}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  const Json context = {{"messages", {{{"role", "user"}, {"content", "x"}}, {{"role", "bot"}, {"content", "y"}}}}};
  std::vector<std::string> outputs(4);
  std::vector<std::thread> threads;
  for (std::string& output : outputs) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) output = *parsed->render(context);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& output : outputs) EXPECT_EQ(output, "<|USER|>litx<|BOT|>lity");
}

// Formats. The values are Python's.

TEST(TemplateFormats, RefuseForTextWhatNumbersAloneHave) {
  for (const char* spec : {"+", " ", "-", "#", ",", "_", "=5", "d"}) {
    EXPECT_EQ(rendered(std::string("{{ '{:") + spec + "}'.format('a') }}").substr(0, 6), "error:") << spec;
  }
  for (const char* spec : {"+c", "#c", ",c", ".1c", ",x", ",n", "_n", ".1d", "s"}) {
    EXPECT_EQ(rendered(std::string("{{ '{:") + spec + "}'.format(65) }}").substr(0, 6), "error:") << spec;
  }
  EXPECT_EQ(rendered("{{ '%c' % 'ab' }}").substr(0, 6), "error:");
}

TEST(TemplateFormats, LayNumbersOutAsPythonDoes) {
  EXPECT_EQ(rendered("{{ '{:5c}|{:<3c}|{:012,}|{:09_}|{:011,.1f}'.format(65, 66, 1234, -1234, 1234.56) }}"),
            "    A|B  |0,000,001,234|-0_001_234|0,001,234.6");
  EXPECT_EQ(rendered("{{ '{:0=9,}|{:=09_}|{:*=9,}|%4.0c'.format(1, 2, 3) % 'x' }}"),
            "0,000,001|0_000_002|********3|   x");
  EXPECT_EQ(rendered("{{ '{:.0} {:.1} {:.2} {:.3} {:#.1} {:.3}'.format(2.0, 2.0, 2.0, 12345.0, 2.0, 0.5) }}"),
            "2e+00 2e+00 2.0 1.23e+04 2.e+00 0.5");
  EXPECT_EQ(rendered("{{ '{!a} %a'.format('é😀') }} {{ '%a' % 'ü' }}"), "'\\xe9\\U0001f600' %a '\\xfc'");
}

TEST(TemplateFormats, DoNotMixFieldsWithNumbersAndWithout) {
  EXPECT_EQ(rendered("{{ '{} {1}'.format(1, 2) }}").substr(0, 6), "error:");
  EXPECT_EQ(rendered("{{ '{0:{}}'.format(1, 2) }}").substr(0, 6), "error:");
  EXPECT_EQ(rendered("{{ '{a}{}{:{}}'.format(1, 2, 3, a=4) }}"), "41  2");
}

TEST(TemplateFormats, LeaveAListUnusedAsPythonDoes) {
  EXPECT_EQ(rendered("{{ 'abc' % [] }}{{ 'abc' % [1] }}{{ '%s' % [2] }}"), "abcabc[2]");
  EXPECT_EQ(rendered("{{ 'abc' % 5 }}").substr(0, 6), "error:");
}

TEST(TemplateNumbers, RoundAndDivideAsPythonDoes) {
  EXPECT_EQ(rendered("{{ (-0.5)|round(0, 'ceil') }} {{ (-0.0)|round(0, 'floor') }} {{ (-0.5)|round }}"),
            "0.0 0.0 -0.0");
  EXPECT_EQ(rendered("{{ 1e16 // -3 }} {{ -7.5 // 2 }} {{ 0.0 // -2 }}"), "-3333333333333335.0 -4.0 -0.0");
  EXPECT_EQ(rendered("{{ 017 }}").substr(0, 6), "error:");
  EXPECT_EQ(rendered("{{ 00 }} {{ 0_0 }} {{ 01.5 }} {{ 01e1 }}"), "0 0 1.5 10.0");
}

TEST(TemplateLoops, PrintWhereTheyAre) {
  EXPECT_EQ(rendered("{% for i in [1, 2] %}{{ loop }}{% endfor %}"), "<LoopContext 1/2><LoopContext 2/2>");
}

}  // namespace
}  // namespace twostroke::jinja
