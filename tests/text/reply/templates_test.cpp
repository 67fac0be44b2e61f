// The published chat templates: which syntax each is, and what a template writes is read back.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "reply_tools.h"
#include "server/text/jinja/template.h"

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

struct Expectation {
  std::string syntax;
  bool uses_tools;
  bool writes_calls;  // the template renders an assistant's tool calls
};

const std::map<std::string, Expectation>& expectations() {
  static const std::map<std::string, Expectation> table = {
      {"Apertus-8B-Instruct.jinja", {"apertus", true, true}},
      {"Bielik-11B-v3.0-Instruct.jinja", {"hermes", true, true}},
      {"Cohere2MoE.jinja", {"cohere", true, true}},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use.jinja", {"cohere", true, true}},
      {"GLM-4.7-Flash.jinja", {"glm", true, true}},
      {"GigaChat3-10B-A1.8B.jinja", {"gigachat3", true, true}},
      {"HuggingFaceTB-SmolLM3-3B.jinja", {"generic", false, false}},
      {"Kimi-K2-Thinking.jinja", {"kimi-k2", true, true}},
      {"LFM2-8B-A1B.jinja", {"lfm2", true, false}},
      {"LFM2.5-Instruct.jinja", {"lfm2", true, false}},
      {"MiniMax-M1.jinja", {"minimax-m1", true, true}},
      {"MiniMax-M3.jinja", {"minimax-m3", true, true}},
      {"Mistral-Small-3.2-24B-Instruct-2506.jinja", {"mistral-args", true, true}},
      {"NVIDIA-Nemotron-Nano-v2.jinja", {"nemotron", true, true}},
      {"Qwen-QwQ-32B.jinja", {"hermes", true, true}},
      {"Qwen-Qwen3-0.6B.jinja", {"hermes", true, true}},
      {"Qwen3.5-4B.jinja", {"qwen-xml", true, true}},
      {"StepFun3.5-Flash.jinja", {"qwen-xml", true, true}},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", {"deepseek-r1", false, true}},
      {"deepseek-ai-DeepSeek-V3.2.jinja", {"deepseek-v3.2", true, true}},
      {"deepseek-ai-DeepSeek-V4.jinja", {"deepseek-v4", true, true}},
      {"google-gemma-2-2b-it.jinja", {"generic", false, false}},
      {"google-gemma-4-31B-it.jinja", {"gemma4", true, true}},
      {"ibm-granite-granite-4.0.jinja", {"hermes", true, true}},
      {"llama-cpp-deepseek-r1.jinja", {"deepseek-r1", false, true}},
      {"meetkai-functionary-medium-v3.1.jinja", {"functionary-v3.1", true, true}},
      {"meta-llama-Llama-3.1-8B-Instruct.jinja", {"llama3", true, true}},
      {"microsoft-Phi-3.5-mini-instruct.jinja", {"generic", false, false}},
      {"mistralai-Mistral-Nemo-Instruct-2407.jinja", {"mistral", true, true}},
      {"muse-glimmer.jinja", {"muse", true, true}},
      {"openbmb-MiniCPM5-1B.jinja", {"minicpm5", true, true}},
      {"poolside-Laguna-XS-2.1.jinja", {"glm", true, true}},
      {"tencent-Hy3.jinja", {"hy3", true, true}},
      {"unsloth-mistral-Devstral-Small-2507.jinja", {"mistral-args", true, true}},
  };
  return table;
}

Json tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "get_weather", "description": "The weather.",
    "parameters": {"type": "object", "properties": {
      "city": {"type": "string", "description": "Where."}, "days": {"type": "integer", "description": "How many."},
      "exact": {"type": "boolean", "description": "Whether."},
      "note": {"type": "string", "description": "What else."}}, "required": ["city"]}}}])");
}

ParseOptions parse_options(const Json& schema) {
  ParseOptions options;
  options.tool_calls = true;
  options.tool_names = {"get_weather"};
  options.tool_parameters = {&schema};
  return options;
}

TEST(ReplyTemplates, AreEachOfTheirSyntax) {
  const auto tokenizer = byte_tokenizer();
  for (const auto& [file, expected] : expectations()) {
    const std::string source = shared_template(file);
    if (source.empty()) GTEST_SKIP() << "no shared chat templates";
    const auto syntax = ReplySyntax::detect(source, *tokenizer);
    EXPECT_EQ(syntax->name(), expected.syntax) << file;
    EXPECT_EQ(syntax->template_uses_tools(), expected.uses_tools) << file;
    EXPECT_EQ(syntax->call_id_bytes(), file.starts_with("mistralai") || file.starts_with("Mistral-Small") ? 9u : 0u)
        << file;
  }
}

// Renders a conversation that ends in calls, and the same up to the prompt for that answer: what stands between is what
// the model would have written.
struct Rendered {
  std::string prompt_end;
  std::string turn;
};

std::optional<std::string> render(const std::string& source, Json messages, bool prompt, bool thinking) {
  const Result<jinja::Template> parsed = jinja::Template::parse(source);
  if (!parsed.ok()) return std::nullopt;
  jinja::RenderOptions options;
  options.now = {2026, 7, 1, 12, 0, 0};
  options.mutable_containers = true;
  options.from_json = true;
  Json context = {{"messages", messages},        {"tools", tools()},     {"add_generation_prompt", prompt},
                  {"enable_thinking", thinking}, {"thinking", thinking}, {"bos_token", ""},
                  {"eos_token", "<EOS>"}};
  Result<std::string> text = parsed->render(context, options);
  context.erase("tools");
  if (!text.ok()) text = parsed->render(context, options);  // one template fails at them
  return text.ok() ? std::optional<std::string>(*text) : std::nullopt;
}

std::optional<Rendered> render_turn(const std::string& source, const Json& answer, bool thinking) {
  const Json user = {{"role", "user"}, {"content", "zzquestion"}};
  const auto prompt = render(source, Json::array({user}), true, thinking);
  const auto whole = render(source, Json::array({user, answer}), false, thinking);
  if (!prompt || !whole) return std::nullopt;
  // A template may write the beginning of the turn differently once it is over (without its thinking): take what is the
  // same from the user's message on.
  const size_t prompt_at = prompt->rfind("zzquestion");
  const size_t whole_at = whole->rfind("zzquestion");
  if (prompt_at == std::string::npos || whole_at == std::string::npos) return std::nullopt;
  const std::string opened = prompt->substr(prompt_at);
  const std::string turn = whole->substr(whole_at);
  size_t same = 0;
  while (same < opened.size() && same < turn.size() && opened[same] == turn[same]) ++same;
  // Not within a marker.
  for (const char* brackets : {"<>", "[]"}) {
    const size_t begin = opened.substr(0, same).rfind(brackets[0]);
    if (begin != std::string::npos && opened.substr(begin, same - begin).find(brackets[1]) == std::string::npos) {
      same = begin;
    }
  }
  Rendered rendered{opened.substr(0, same), turn.substr(same)};
  // Some write past turns without the end of the reasoning that their prompt begins.
  if (rendered.prompt_end.find("<think>") != std::string::npos && turn.find("</think>") == std::string::npos) {
    rendered.prompt_end.clear();
  }
  return rendered;
}

Json answer_with(const Json& content, const std::vector<Json>& arguments, bool as_object) {
  Json calls = Json::array();
  for (size_t i = 0; i < arguments.size(); ++i) {
    calls.push_back(
        {{"id", "call0000" + std::to_string(i)},
         {"type", "function"},
         {"function", {{"name", "get_weather"}, {"arguments", as_object ? arguments[i] : Json(arguments[i].dump())}}}});
  }
  return {{"role", "assistant"}, {"content", content}, {"tool_calls", calls}};
}

bool same_calls(const Reply& reply, const std::vector<Json>& arguments) {
  if (reply.calls.size() != arguments.size()) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (reply.calls[i].name != "get_weather") return false;
    if (nlohmann::json(Json::parse(reply.calls[i].arguments, nullptr, false)) != nlohmann::json(arguments[i])) {
      return false;
    }
  }
  return true;
}

TEST(ReplyTemplates, WriteCallsThatAreReadBack) {
  const auto tokenizer = byte_tokenizer();
  const Json schema = tools()[0]["function"]["parameters"];
  const std::vector<Json> first = {Json::parse(R"({"city": "Gießen, \"Hessen\"", "days": 3, "exact": true})")};
  const std::vector<Json> second = {Json::parse(R"({"city": "Oslo", "note": "two\nlines and <b>tags</b> & 'quotes'"})"),
                                    Json::parse(R"({"city": "5", "days": -1, "exact": false})")};
  for (const auto& [file, expected] : expectations()) {
    if (!expected.writes_calls) continue;
    const std::string source = shared_template(file);
    if (source.empty()) GTEST_SKIP() << "no shared chat templates";
    const auto syntax = ReplySyntax::detect(source, *tokenizer);
    int read = 0;
    for (const bool thinking : {false, true}) {
      for (const std::vector<Json>* arguments : {&first, &second}) {
        for (const Json& content : {Json("Let me see."), Json("")}) {
          for (const bool as_object : {true, false}) {
            const auto rendered = render_turn(source, answer_with(content, *arguments, as_object), thinking);
            if (!rendered || rendered->turn.find("get_weather") == std::string::npos) continue;
            ParseOptions options = parse_options(schema);
            options.prompt_end = rendered->prompt_end;
            const Reply reply = parse_in_every_way(parser_of(*syntax, options), rendered->turn);
            std::vector<Json> wanted = *arguments;
            if (expected.syntax == "gigachat3") wanted.resize(1);  // its template writes the first call alone
            EXPECT_TRUE(same_calls(reply, wanted)) << file << "\n" << rendered->turn << "\n" << reply;
            ++read;
          }
        }
      }
    }
    EXPECT_GE(read, 4) << file;
  }
}

TEST(ReplyTemplates, WriteReasoningThatIsReadBack) {
  const auto tokenizer = byte_tokenizer();
  int read = 0;
  for (const auto& [file, expected] : expectations()) {
    const std::string source = shared_template(file);
    if (source.empty()) GTEST_SKIP() << "no shared chat templates";
    const auto syntax = ReplySyntax::detect(source, *tokenizer);
    const Json schema = tools()[0]["function"]["parameters"];
    Json answer = answer_with("Hello.", {Json::parse(R"({"city": "Oslo"})")}, true);
    answer["reasoning_content"] = "It is\n\nclear.";
    const auto rendered = render_turn(source, answer, true);
    if (!rendered || rendered->turn.find("clear.") == std::string::npos) continue;
    ParseOptions options = parse_options(schema);
    options.prompt_end = rendered->prompt_end;
    const Reply reply = parse_in_every_way(parser_of(*syntax, options), rendered->turn);
    EXPECT_EQ(reply.reasoning, "It is\n\nclear.") << file << "\n" << rendered->turn << "\n" << reply;
    EXPECT_EQ(reply.calls.size(), 1u) << file << "\n" << reply;
    ++read;
  }
  EXPECT_GE(read, 12);
}

}  // namespace
}  // namespace twostroke::reply
