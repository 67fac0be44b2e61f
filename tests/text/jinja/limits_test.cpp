// Templates and contexts that cost too much end in an error, never in a crash, and the next render works.
#include <gtest/gtest.h>
#include <pthread.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/text/jinja/template.h"

namespace twostroke::jinja {
namespace {

using Json = nlohmann::ordered_json;

Status failure_of(const std::string& source, const Json& context = Json::object(), const Limits& limits = {}) {
  const Result<Template> parsed = Template::parse(source, limits);
  if (!parsed.ok()) return parsed.status();
  const Result<std::string> output = parsed->render(context);
  return output.ok() ? Status() : output.status();
}

std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

void expect_failure(const Status& status, const std::string& words) {
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

TEST(Limits, RefuseATemplateOverItsSize) {
  Limits limits;
  limits.template_bytes_max = 10;
  EXPECT_TRUE(Template::parse("0123456789", limits).ok());
  expect_failure(Template::parse("0123456789a", limits).status(), "limit is 10");
}

TEST(Limits, RefuseThousandsOfNestedBrackets) {
  const std::pair<const char*, const char*> brackets[] = {{"(", ")"},   {"[", "]"},  {"{1:", "}"},
                                                          {"x[", "]"},  {"f(", ")"}, {"x|d(", ")"},
                                                          {"not ", ""}, {"- ", ""},  {"1 if 1 else ", ""}};
  for (const auto& [open, close] : brackets) {
    expect_failure(failure_of("{{ " + repeated(open, 3000) + "1" + repeated(close, 3000) + " }}"), "nests deeper");
    EXPECT_FALSE(failure_of("{{ " + repeated(open, 3000)).ok());
  }
}

TEST(Limits, RefuseThousandsOfNestedBlocks) {
  const std::string blocks[] = {"{% if 1 %}",      "{% for x in y %}", "{% set x %}", "{% filter upper %}",
                                "{% macro m() %}", "{% call m() %}",   "{% with %}",  "{% generation %}"};
  for (const std::string& block : blocks) expect_failure(failure_of(repeated(block, 3000)), "nests deeper");
}

TEST(Limits, RefuseThousandsOfChainedOperations) {
  for (const std::string link :
       {"+1", "-1", "*1", "**1", " and 1", " or 1", ".a", "[0]", "()", "|upper", " is defined"}) {
    EXPECT_FALSE(failure_of("{{ x" + repeated(link, 3000) + " }}").ok()) << link;
  }
}

TEST(Limits, AllowThousandsOfSiblings) {
  const std::string source = repeated("{% if x %}a{% endif %}", 3000) + "{{ 1" + repeated(" ~ 1", 3000) + " }}{{ 1" +
                             repeated(" == 1", 3000) + " }}{% if x %}" + repeated("{% elif x %}", 3000) + "{% endif %}";
  EXPECT_TRUE(failure_of(source, {{"x", false}}).ok());
}

TEST(Limits, RefuseThousandsOfNestedArraysInTheContext) {
  Json nested = Json::array();
  for (int i = 0; i < 3000; ++i) nested = Json::array({std::move(nested)});
  const Json context = {{"tools", nested}};
  expect_failure(failure_of("{{ tools|tojson }}", context), "nests deeper");
  EXPECT_TRUE(failure_of("{{ 1 }}", context).ok()) << "a variable that is not used costs nothing";
}

TEST(Limits, RefuseValuesThatATemplateNestsTooDeep) {
  const std::string nest =
      "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}";
  for (const std::string use : {"{{ ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x == [ns.x] }}", "{{ ns.x < [ns.x] }}"}) {
    expect_failure(failure_of(nest + use), "nests deeper");
  }
}

TEST(Limits, RefuseAValueThatHoldsItself) {
  expect_failure(failure_of("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"), "nests deeper");
}

TEST(Limits, EndAMacroThatCallsItselfForEver) {
  expect_failure(failure_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), "nests deeper");
  expect_failure(
      failure_of("{% macro m() %}{{ caller is defined }}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}"),
      "nests deeper");
  expect_failure(failure_of("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"), "nests deeper");
}

// The deepest ways into the interpreter, on a thread with the stack that template.h asks for. Builds that are not
// optimised or that check themselves have larger frames.
TEST(Limits, KeepTheStackWithinItsBound) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  const std::size_t stack_bytes = std::size_t{32} << 20;
#else
  const std::size_t stack_bytes = std::size_t{2} << 20;
#endif
  const auto run = [](void*) -> void* {
    const std::string sources[] = {
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ caller is defined }}{% call m() %}x{% endcall %}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{% for x in [1] %}{% filter upper %}{{ m(a=1|d(m()))|upper|trim }}{% endfilter %}{% endfor "
        "%}{% endmacro %}{{ m() }}",
        "{% macro m(a=[{1: (m(),)}] + [2]) %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% for x in [1] if m() %}{% endfor %}{% endmacro %}{{ m() }}",
        "{% for x in [1] recursive %}{% set y %}{{ loop([1]) }}{% endset %}{% endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [{1: (ns.x,)}] %}{% endfor %}{{ ns.x }}",
        "{{ " + repeated("[", 90) + "1" + repeated("]", 90) + repeated("|list", 100) + " }}",
    };
    for (const std::string& source : sources) (void)failure_of(source);
    return nullptr;
  };
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, nullptr), 0);
  EXPECT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

TEST(Limits, AllowMacrosThatFollowANestedValue) {
  Json nested = 1;
  for (int i = 0; i < 100; ++i) nested = Json{{"inner", std::move(nested)}};
  const std::string source =
      "{% macro walk(v) %}{% if v is mapping %}{% for k, x in v.items() %}{{ k ~ walk(x) }}{% endfor %}"
      "{% else %}{{ v }}{% endif %}{% endmacro %}{{ walk(value) }}";
  const Result<std::string> output = Template::parse(source)->render({{"value", nested}});
  ASSERT_TRUE(output.ok()) << output.status().message();
  EXPECT_EQ(*output, repeated("inner", 100) + "1");
}

TEST(Limits, EndLoopsAtTheLimitOfSteps) {
  Limits limits;
  limits.steps_max = 100'000;
  const std::string loops = "{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}";
  expect_failure(failure_of(loops, Json::object(), limits), "100000 steps");
}

TEST(Limits, CountTheBytesThatFiltersWorkOnAsSteps) {
  Limits limits;
  limits.steps_max = 10'000;
  const Json context = {{"s", std::string(100'000, 'a')}};
  EXPECT_TRUE(failure_of("{{ s|upper|length }}", context, limits).ok());
  expect_failure(failure_of("{% for i in range(100) %}{% set x = s|upper %}{% endfor %}", context, limits), "steps");
}

TEST(Limits, RefuseHugeStringsBeforeTheyAreMade) {
  for (const std::string huge :
       {"{{ 'x' * 10**9 }}", "{{ 10**9 * 'xy' }}", "{{ 'x'.ljust(10**9) }}", "{{ 'x'.zfill(10**12) }}",
        "{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}", "{{ 'a'|indent(10**9, true) }}",
        "{{ 'x'|center(10**10) }}", "{{ [1]|tojson(indent=10**9) }}", "{{ '\t'.expandtabs(10**9) }}"}) {
    expect_failure(failure_of(huge), "a string of more than");
  }
}

TEST(Limits, RefuseStringsThatGrowByDoubling) {
  expect_failure(
      failure_of("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
      "a string of more than");
  expect_failure(failure_of("{% set ns = namespace(s='a') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('a', "
                            "'a' * 4000) %}{% endfor %}"),
                 "a string of more than");
}

TEST(Limits, RefuseHugeLists) {
  expect_failure(failure_of("{% set x = [1] * 10**9 %}"), "bytes of memory");
  expect_failure(failure_of("{{ range(10**9) }}"), "range() of more than 100000 items");
  expect_failure(failure_of("{{ range(-(10**18), 10**18) }}"), "range() of more than 100000 items");
  expect_failure(failure_of("{% set x = [1]|batch(10**9, 0)|list %}"), "bytes of memory");
  expect_failure(failure_of("{% set x = [1]|slice(10**9)|list %}"), "bytes of memory");
}

TEST(Limits, CountWhatIsAliveAsMemory) {
  Limits limits;
  limits.memory_bytes_max = 1 << 20;
  const Json context = {{"s", std::string(10'000, 'a')}};
  EXPECT_TRUE(failure_of("{% for i in range(1000) %}{% set x = s ~ i %}{% endfor %}", context, limits).ok())
      << "what is dropped is given back";
  expect_failure(
      failure_of(
          "{% set ns = namespace(all=[]) %}{% for i in range(1000) %}{% set ns.all = ns.all + [s ~ i] %}{% endfor %}",
          context, limits),
      "bytes of memory");
  expect_failure(failure_of("{{ s|length }}", {{"s", std::string(2'000'000, 'a')}}, limits), "bytes of memory");
}

TEST(Limits, EndOutputAtItsLimit) {
  Limits limits;
  limits.output_bytes_max = 100;
  EXPECT_TRUE(failure_of("{% for i in range(100) %}x{% endfor %}", Json::object(), limits).ok());
  expect_failure(failure_of("{% for i in range(101) %}x{% endfor %}", Json::object(), limits), "over 100 bytes");
}

TEST(Limits, SearchLongStringsInLinearTime) {
  // A search that starts over at each place would need 10^11 comparisons.
  const Json context = {{"s", std::string(1'000'000, 'a')}, {"p", std::string(100'000, 'a') + "b"}};
  EXPECT_TRUE(
      failure_of("{{ p in s }}{{ s.find(p) }}{{ s.split(p)|length }}{{ s.replace(p, '')|length }}{{ s.rfind(p) }}",
                 context)
          .ok());
}

TEST(Limits, LeaveTheTemplateUsableAfterAFailure) {
  const Result<Template> parsed = Template::parse("{{ 'x' * n }}");
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->render({{"n", 1'000'000'000}}).ok());
  const Result<std::string> output = parsed->render({{"n", 3}});
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(*output, "xxx");
}

// The names of an object are compared with one another, so a long object costs steps by the square of its length.
TEST(Limits, CountTheMembersOfParsedObjects) {
  std::string json = "{";
  for (int i = 0; i < 2000; ++i) json += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  json += "}";
  const auto render = [](const std::string& source, const Json& context) {
    RenderOptions options;
    options.from_json = true;
    const Result<Template> parsed = Template::parse(source);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    const Result<std::string> output = parsed->render(context, options);
    return output.ok() ? Status() : output.status();
  };
  EXPECT_TRUE(render("{{ (j|from_json)|length }}", {{"j", json}}).ok());
  expect_failure(render("{% for i in range(6) %}{{ (j|from_json)|length }}{% endfor %}", {{"j", json}}), "steps");
  for (int i = 2000; i < 3000; ++i) json.insert(json.size() - 1, ",\"" + std::to_string(i) + "\":1");
  expect_failure(render("{{ (j|from_json)|length }}", {{"j", json}}), "too many members");
}

}  // namespace
}  // namespace twostroke::jinja
