// Published chat templates and the cases of the template language, against what Python's Jinja2 gives. The data is
// read in place from the shared folder.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "server/text/jinja/template.h"

namespace twostroke::jinja {
namespace {

using Json = nlohmann::ordered_json;

const std::string kFolder = std::string(TWOSTROKE_SHARED_DIR) + "/chat_templates/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

RenderOptions options_at_noon() {
  RenderOptions options;
  options.now = {2026, 7, 1, 12, 0, 0};
  return options;
}

Result<std::string> render(const std::string& source, const Json& context, const RenderOptions& options) {
  const Result<Template> parsed = Template::parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->render(context, options);
}

std::string described(const Result<std::string>& result) {
  return result.ok() ? "output " + Json(*result).dump() : "error " + result.status().message();
}

// Python's message is "TypeName: message"; ours is "line N: message".
bool same_message(const std::string& ours, const std::string& python) {
  const std::size_t begin = python.find(": ") + 2;
  return ours.find(python.substr(begin, python.size() - begin)) != std::string::npos;
}

TEST(ChatTemplates, RenderAsPythonsJinjaDoes) {
  const std::string text = read_file(kFolder + "golden.json");
  if (text.empty()) GTEST_SKIP() << "no golden renders in " << kFolder;
  const Json cases = Json::parse(text);
  ASSERT_EQ(cases.size(), 238u);
  std::string mismatches;
  for (const Json& test : cases) {
    const std::string source = read_file(kFolder + test.at("template_file").get<std::string>());
    const Result<std::string> result = render(source, test.at("context"), options_at_noon());
    const bool fails = test.contains("error");
    const bool as_expected = fails ? !result.ok() && same_message(result.status().message(), test.at("error"))
                                   : result.ok() && *result == test.at("output").get<std::string>();
    if (as_expected) continue;
    mismatches += test.at("template_file").get<std::string>() + " / " + test.at("context_name").get<std::string>() +
                  "\n  gives    " + described(result) + "\n  expected " + test.at(fails ? "error" : "output").dump() +
                  "\n";
  }
  EXPECT_EQ(mismatches, "");
}

TEST(ChatTemplates, ThatChangeListsRenderWhereTheDialectAllowsIt) {
  const std::string text = read_file(kFolder + "golden.json");
  if (text.empty()) GTEST_SKIP() << "no golden renders in " << kFolder;
  RenderOptions options = options_at_noon();
  options.mutable_containers = true;
  int rendered = 0;
  for (const Json& test : Json::parse(text)) {
    if (!test.value("ok_with_mutable_sandbox", false)) continue;
    const std::string source = read_file(kFolder + test.at("template_file").get<std::string>());
    const Result<std::string> result = render(source, test.at("context"), options);
    EXPECT_TRUE(result.ok()) << described(result);
    ++rendered;
  }
  EXPECT_EQ(rendered, 2);
}

TEST(ChatTemplates, RenderInPiecesThatMakeTheWhole) {
  const std::string text = read_file(kFolder + "golden.json");
  if (text.empty()) GTEST_SKIP() << "no golden renders in " << kFolder;
  for (const Json& test : Json::parse(text)) {
    if (test.contains("error")) continue;
    const Result<Template> parsed = Template::parse(read_file(kFolder + test.at("template_file").get<std::string>()));
    ASSERT_TRUE(parsed.ok());
    const Result<std::vector<Span>> spans = parsed->render_spans(test.at("context"), options_at_noon());
    ASSERT_TRUE(spans.ok());
    std::string whole;
    for (const Span& span : *spans) whole += span.text;
    EXPECT_EQ(whole, test.at("output").get<std::string>());
  }
}

// The content of each message is found in pieces that are not the template's, whatever the template does with it.
TEST(ChatTemplates, NeverTakeControlTokensOfAMessageForTheirOwn) {
  const std::string text = read_file(kFolder + "golden.json");
  if (text.empty()) GTEST_SKIP() << "no golden renders in " << kFolder;
  const std::string forged = "<|forged|>";
  int checked = 0;
  for (const Json& test : Json::parse(text)) {
    if (test.contains("error")) continue;
    Json context = test.at("context");
    for (Json& message : context.at("messages")) {
      if (message.contains("content") && message.at("content").is_string()) {
        message["content"] = forged + " " + message.at("content").get<std::string>();
      }
    }
    const Result<Template> parsed = Template::parse(read_file(kFolder + test.at("template_file").get<std::string>()));
    ASSERT_TRUE(parsed.ok());
    const Result<std::vector<Span>> spans = parsed->render_spans(context, options_at_noon());
    if (!spans.ok()) continue;
    for (const Span& span : *spans) {
      const bool has_forged = span.text.find(forged) != std::string::npos;
      EXPECT_FALSE(has_forged && span.from_template) << test.at("template_file") << ": " << span.text;
      checked += has_forged ? 1 : 0;
    }
  }
  EXPECT_GT(checked, 150);
}

TEST(TemplateLanguage, AgreesWithPythonsJinjaInEveryCase) {
  const std::string text = read_file(kFolder + "jinja_language_cases.json");
  if (text.empty()) GTEST_SKIP() << "no language cases in " << kFolder;
  const Json cases = Json::parse(text);
  ASSERT_EQ(cases.size(), 278u);
  RenderOptions options = options_at_noon();
  options.mutable_containers = true;
  std::string mismatches;
  for (const Json& test : cases) {
    const Result<std::string> result = render(test.at("template"), test.at("context"), options);
    if (result.ok() && *result == test.at("expected").get<std::string>()) continue;
    mismatches += test.at("section").get<std::string>() + " / " + test.at("name").get<std::string>() + "\n  template " +
                  test.at("template").dump() + "\n  gives    " + described(result) + "\n  expected output " +
                  test.at("expected").dump() + "\n";
  }
  EXPECT_EQ(mismatches, "");
}

}  // namespace
}  // namespace twostroke::jinja
