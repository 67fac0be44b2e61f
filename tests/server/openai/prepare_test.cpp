// From a chat to the prompt that the model sees, and what of the request goes with it.
#include "server/openai/prepare.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "backend/sim/sim_backend.h"
#include "byte_tokenizer.h"
#include "fake_reply_syntax.h"

namespace twostroke::openai {
namespace {

namespace asio = boost::asio;

class PrepareTest : public testing::Test {
 protected:
  void SetUp() override {
    SimOptions options;
    options.info.vocab_size = tokenizer_.vocab_size();
    backend_ = std::move(SimBackend::create(std::move(options))).value();
    engine_ = std::make_unique<Engine>(SchedulerLimits{}, EngineLimits{}, *backend_, [](StepOutput&&) {});
    use_template(
        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% for c in m.tool_calls or [] %}"
        "!{{ c.function.arguments.a }}{% endfor %}{% endfor %}"
        "{% if tools %}[{{ tools[0].function.name }}]{% endif %}{% if add_generation_prompt %}<assistant>{% endif %}");
  }

  void use_template(const std::string& source) {
    template_.emplace(jinja::Template::parse(source).value());
    service_.reset(new Service{.tokenizer = tokenizer_,
                               .chat_template = &*template_,
                               .reply_syntax = &reply_syntax_,
                               .engine = *engine_,
                               .hub = hub_,
                               .text_pool = text_pool_});
  }

  std::variant<PreparedPrompts, ApiError> prepare(const std::string& body) {
    const auto parsed = parse_chat_request(Json::parse(body), tokenizer_.vocab_size());
    if (const auto* error = std::get_if<ApiError>(&parsed)) return *error;
    // The schemas of tools point into the request.
    request_ = std::get<ChatRequest>(parsed);
    return prepare_chat(*service_, request_);
  }
  // What the prompt says.
  std::string prompt(const std::string& body) {
    const auto prepared = prepare(body);
    if (const auto* error = std::get_if<ApiError>(&prepared)) return "refused: " + error->param.value_or("");
    return text(std::get<PreparedPrompts>(prepared).tokens.at(0));
  }
  std::string text(const std::vector<TokenId>& tokens) const {
    std::string text;
    for (const TokenId token : tokens) text += tokenizer_.piece(token, true);
    return text;
  }

  const ByteTokenizer tokenizer_;
  FakeReplySyntax reply_syntax_{{}, {}};
  std::unique_ptr<SimBackend> backend_;
  std::unique_ptr<Engine> engine_;
  asio::io_context io_;
  asio::thread_pool text_pool_{1};
  RequestHub hub_{io_, [](const StepOutput&) {}};
  std::optional<jinja::Template> template_;
  std::unique_ptr<Service> service_;
  ChatRequest request_;
};

constexpr const char* kHello = R"("messages": [{"role": "user", "content": "hi"}])";
constexpr const char* kTool =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";

std::string body_of(std::initializer_list<std::string> fields) {
  std::string body = "{";
  for (const std::string& field : fields) body += (body.size() > 1 ? ", " : "") + field;
  return body + "}";
}

TEST_F(PrepareTest, ToolsReachTheTemplateUnlessTheyMustNotBeCalled) {
  EXPECT_EQ(prompt(body_of({kHello})), "<user>hi<assistant>");
  EXPECT_EQ(prompt(body_of({kHello, kTool})), "<user>hi[f]<assistant>");
  EXPECT_EQ(prompt(body_of({kHello, kTool, R"("tool_choice": "none")"})), "<user>hi<assistant>");
}

TEST_F(PrepareTest, ATemplateWithoutToolsGetsThemInASystemMessage) {
  reply_syntax_.set_template_uses_tools(false);
  const std::string own = prompt(body_of({kHello, kTool}));
  EXPECT_TRUE(own.starts_with("<system>")) << own;
  EXPECT_NE(own.find("\"f\""), std::string::npos) << own;
  const std::string joined = prompt(body_of(
      {R"("messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}])", kTool}));
  EXPECT_TRUE(joined.starts_with("<system>Be kind.\n\n")) << joined;
  EXPECT_EQ(joined.find("<system>", 1), std::string::npos);
}

TEST_F(PrepareTest, TheAnswerIsReadByWhatTheTemplateWroteLast) {
  const auto options = [&](const std::string& body) {
    return std::get<PreparedPrompts>(prepare(body)).reply.value_or(reply::ParseOptions{});
  };
  EXPECT_EQ(options(body_of({kHello})).prompt_end, "<assistant>");
  EXPECT_FALSE(options(body_of({kHello})).tool_calls);
  EXPECT_TRUE(options(body_of({kHello, kTool})).tool_calls);
  EXPECT_EQ(options(body_of({kHello, kTool})).tool_names, std::vector<std::string>{"f"});
  const auto structured = options(body_of({kHello, kTool, R"("structured_outputs": {"choice": ["a"]})"}));
  EXPECT_FALSE(structured.tool_calls || structured.reasoning) << "all of the text has the format";
}

TEST_F(PrepareTest, GoingOnEndsThePromptWithinTheLastMessage) {
  const auto going_on = [&](const std::string& content) {
    return prompt(body_of(
        {R"("messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": ")" + content + R"("}])",
         R"("continue_final_message": true)"}));
  };
  EXPECT_EQ(going_on("b"), "<user>a b<assistant>b");
  EXPECT_EQ(going_on(" b c "), "<user>a b<assistant>b c") << "as the template trims it";
  use_template("{% for m in messages %}{{ m.content | upper }}{% endfor %}");
  EXPECT_EQ(going_on("b"), "refused: continue_final_message");
}

TEST_F(PrepareTest, CallsInTheHistoryAreObjectsAndTheirMessagesMayHaveNoContent) {
  const char* history = R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null,
      "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":7}"}}]}])";
  EXPECT_EQ(prompt(body_of({history})), "<user>x<assistant>None!7<assistant>") << "null is what templates ask for";
  use_template("{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% endfor %}");
  EXPECT_EQ(prompt(body_of({history})), "<user>x<assistant>") << "this one cannot take null";
}

TEST_F(PrepareTest, TruncationKeepsTheEndOfThePrompt) {
  EXPECT_EQ(prompt(body_of({kHello, R"("truncate_prompt_tokens": 5)"})), "tant>");
}

TEST_F(PrepareTest, BadWordsAreBannedBehindASpaceTooWhereThatMakesOtherTokens) {
  const auto prepared = prepare(body_of({kHello, R"("bad_words": ["x", "yz"])"}));
  EXPECT_EQ(std::get<PreparedPrompts>(prepared).bad_words, (std::vector<std::vector<TokenId>>{{'x'}, {'y', 'z'}}))
      << "a space is a token of its own here, so that the word alone is enough";
  const auto refused = prepare(body_of({kHello, R"("bad_words": [")" + std::string(65, 'x') + R"("])"}));
  EXPECT_EQ(std::get<ApiError>(refused).param, "bad_words");
}

TEST_F(PrepareTest, WhatCannotBeEnforcedIsRefusedByItsField) {
  const auto param = [&](const std::string& field) {
    const auto prepared = prepare(body_of({kHello, kTool, field}));
    const auto* error = std::get_if<ApiError>(&prepared);
    EXPECT_TRUE(error != nullptr && error->status == 400) << field;
    return error == nullptr ? std::string() : error->param.value_or("");
  };
  EXPECT_EQ(param(R"("structured_outputs": {"regex": "(a"})"), "structured_outputs");
  EXPECT_EQ(param(R"("response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}})"),
            "response_format");
  EXPECT_EQ(param(R"("tool_choice": "required")"), "tools") << "the fake syntax cannot demand a call";
  EXPECT_EQ(param(R"("response_format": {"type": "json_object"})"), "tools") << "nor hold those to it that are made";
}

TEST_F(PrepareTest, CallsOfStrictFunctionsAreHeldToTheirForm) {
  const auto refused = [&](const std::string& function, const std::string& choice) {
    const auto prepared = prepare(body_of({kHello, R"("tools": [{"type": "function", "function": {"name": "g"}},
        {"type": "function", "function": {"name": "f")" +
                                                       function + R"(}}], "tool_choice": ")" + choice + '"'}));
    const auto* error = std::get_if<ApiError>(&prepared);
    return error != nullptr && error->param == "tools";  // the fake syntax cannot do it
  };
  EXPECT_TRUE(refused(R"(, "strict": true)", "auto"));
  EXPECT_FALSE(refused(R"(, "strict": false)", "auto"));
  EXPECT_FALSE(refused("", "auto"));
  EXPECT_FALSE(refused(R"(, "strict": true)", "none"));
}

// Each choice repeats them: a small request could ask for gigabytes.
TEST_F(PrepareTest, LogProbabilitiesOfPromptsHaveALimitInAll) {
  const auto param = [&](const std::string& fields) {
    const std::string prompt = "\"prompt\": \"" + std::string(1000, 'x') + "\", ";
    const auto parsed = parse_completion_request(Json::parse("{" + prompt + fields + "}"), 258);
    const auto prepared = prepare_completion(*service_, std::get<CompletionRequest>(parsed));
    const auto* error = std::get_if<ApiError>(&prepared);
    return error == nullptr ? std::string() : error->param.value_or("no param");
  };
  EXPECT_EQ(param(R"("prompt_logprobs": 20, "n": 12)"), "");
  EXPECT_EQ(param(R"("prompt_logprobs": 20, "n": 13)"), "prompt_logprobs");
  EXPECT_EQ(param(R"("logprobs": 5, "n": 43, "echo": true)"), "");
  EXPECT_EQ(param(R"("logprobs": 5, "n": 44, "echo": true)"), "logprobs");
}

TEST_F(PrepareTest, AnEchoSaysWhatThePromptSays) {
  const auto texts = [&](const std::string& prompt) {
    const auto parsed = parse_completion_request(
        Json::parse(R"({"echo": true, "truncate_prompt_tokens": 3, "prompt": )" + prompt + "}"), 258);
    return std::get<PreparedPrompts>(prepare_completion(*service_, std::get<CompletionRequest>(parsed))).texts;
  };
  EXPECT_EQ(texts(R"(["abc", "wxyz"])"), (std::vector<std::string>{"abc", "xyz"}));
  EXPECT_EQ(texts("[256, 104, 105]"), std::vector<std::string>{"hi"});
}

}  // namespace
}  // namespace twostroke::openai
