// What clients send: read, checked, and refused with a message that names the first thing that is wrong.
#include <gtest/gtest.h>

#include <malloc.h>
#include <array>

#include "server/openai/completions/chat_request.h"
#include "server/openai/completions/completion_request.h"
#include "server/openai/json.h"
#include "server/openai/objectives.h"

namespace twostroke::openai {
namespace {

constexpr int32_t kVocab = 1000;

Json chat_body(const std::string& more = "") {
  return Json::parse(R"({"model": "m", "messages": [{"role": "user", "content": "hi"}])" +
                     (more.empty() ? "" : ", " + more) + "}");
}

ChatRequest chat(const std::string& more) {
  auto parsed = parse_chat_request(chat_body(more), kVocab);
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << more << ": " << (error == nullptr ? "" : error->message);
  return error == nullptr ? std::get<ChatRequest>(parsed) : ChatRequest{};
}

// The field that the refusal names; "" when the request is accepted.
std::string refused_chat(const Json& body) {
  const auto parsed = parse_chat_request(body, kVocab);
  const auto* error = std::get_if<ApiError>(&parsed);
  if (error == nullptr) return "";
  EXPECT_EQ(error->status, 400);
  EXPECT_FALSE(error->message.empty());
  return error->param.value_or("?");
}

std::string refused_completion(const std::string& body) {
  const auto parsed = parse_completion_request(Json::parse(body), kVocab);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->param.value_or("?");
}

TEST(ChatRequest, ReadsObjectivesInMilliseconds) {
  const Objectives both = chat(R"("slo": {"ttft_ms": 1500, "tpot_ms": 22.5})").options.objectives;
  EXPECT_EQ(both.ttft_ns, 1'500'000'000);
  EXPECT_EQ(both.tpot_ns, 22'500'000);
  EXPECT_EQ(chat("").options.objectives, Objectives{});
  EXPECT_EQ(chat(R"("slo": null)").options.objectives, Objectives{});
  EXPECT_EQ(chat(R"("slo": {"ttft_ms": null, "tpot_ms": 7})").options.objectives, (Objectives{.tpot_ns = 7'000'000}));
  for (const char* bad : {R"("slo": 5)", R"("slo": "fast")", R"("slo": [1])"}) {
    EXPECT_EQ(refused_chat(chat_body(bad)), "slo") << bad;
  }
  for (const char* bad : {"0", "-1", "\"5\"", "true", "1e300", "[]", "0.0001"}) {
    EXPECT_EQ(refused_chat(chat_body(R"("slo": {"ttft_ms": )" + std::string(bad) + "}")), "slo.ttft_ms") << bad;
    EXPECT_EQ(refused_chat(chat_body(R"("slo": {"tpot_ms": )" + std::string(bad) + "}")), "slo.tpot_ms") << bad;
  }
  EXPECT_EQ(refused_chat(chat_body(R"("slo": {"e2e_ms": 5})")), "slo.e2e_ms");
}

TEST(Objectives, ComeFromHeadersWhereTheFieldSaysNothing) {
  http::HttpRequest request;
  request.headers = {{"x-slo-ttft-ms", "250"}, {"X-SLO-TPOT-MS", "12.5"}};
  Objectives objectives;
  EXPECT_FALSE(add_header_objectives(request, objectives));
  EXPECT_EQ(objectives, (Objectives{.ttft_ns = 250'000'000, .tpot_ns = 12'500'000}));
  Objectives own{.ttft_ns = 1};
  EXPECT_FALSE(add_header_objectives(request, own));
  EXPECT_EQ(own, (Objectives{.ttft_ns = 1, .tpot_ns = 12'500'000})) << "the field holds";
  for (const char* bad : {"0", "-5", "fast", "5ms", "nan", "inf", "1e300", " 5"}) {
    request.headers = {{"x-slo-tpot-ms", bad}};
    const auto error = add_header_objectives(request, objectives);
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->param, "x-slo-tpot-ms");
  }
  request.headers = {{"x-slo-ttft-ms", "250"}, {"X-SLO-TTFT-MS", "900"}};
  EXPECT_EQ(add_header_objectives(request, objectives).value_or(ApiError{}).param, "x-slo-ttft-ms");
  request.headers = {{"x-slo-ttft-ms", "250"}, {"X-SLO-TTFT-MS", "250"}};
  EXPECT_FALSE(add_header_objectives(request, objectives)) << "said twice, but no contradiction";
  request.headers = {};
  Objectives none;
  EXPECT_FALSE(add_header_objectives(request, none));
  EXPECT_EQ(none, Objectives{});
}

TEST(Objectives, InHeadersAreRefusedByTheirNameWhereThereAreNoTokensToComeInTime) {
  http::HttpRequest request;
  request.headers = {{"x-request-id", "250"}, {"x-slo-ttft-ms", ""}};
  EXPECT_FALSE(refuse_header_objectives(request));
  for (const char* value : {"250", "abc"}) {
    request.headers = {{"x-slo-ttft-ms", ""}, {"X-SLO-TPOT-MS", value}};
    const auto error = refuse_header_objectives(request);
    ASSERT_TRUE(error) << value;
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->param, "x-slo-tpot-ms");
    EXPECT_EQ(error->message, "The header 'x-slo-tpot-ms' is not supported by this endpoint: leave it out.");
  }
}

TEST(ChatRequest, ReadsEveryParameter) {
  const ChatRequest request = chat(
      R"("temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": -7, "max_tokens": 5, "stop": ["a", "b"], "n": 3,
         "presence_penalty": -1, "frequency_penalty": 1.5, "repetition_penalty": 1.1, "logit_bias": {"12": -100, "7": 3.5},
         "logprobs": true, "top_logprobs": 4, "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true})");
  const GenerationOptions& options = request.options;
  EXPECT_FLOAT_EQ(options.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(options.sampling.top_p, 0.9F);
  EXPECT_EQ(options.sampling.top_k, 40);
  EXPECT_FLOAT_EQ(options.sampling.min_p, 0.05F);
  EXPECT_EQ(options.sampling.seed, static_cast<uint64_t>(-7));
  EXPECT_FLOAT_EQ(options.sampling.presence_penalty, -1);
  EXPECT_FLOAT_EQ(options.sampling.frequency_penalty, 1.5F);
  EXPECT_FLOAT_EQ(options.sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(options.sampling.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, 3.5F}, {12, -100.F}}));
  EXPECT_EQ(options.sampling.logprobs, 4);
  EXPECT_EQ(options.max_tokens, 5U);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options.n, 3U);
  EXPECT_TRUE(options.ignore_eos);
  EXPECT_TRUE(options.stream);
  EXPECT_TRUE(options.include_usage);
}

TEST(ChatRequest, ReadsWhatGoesBeyondOpenAi) {
  const GenerationOptions options =
      chat(R"("min_tokens": 2, "max_tokens": 9, "stop_token_ids": [9, 3, 9], "include_stop_str_in_output": true,
              "skip_special_tokens": false, "bad_words": ["x"], "allowed_token_ids": [5, 1], "prompt_logprobs": 2,
              "return_token_ids": true, "include_reasoning": false, "truncate_prompt_tokens": -1, "priority": -3,
              "cache_salt": "s")")
          .options;
  EXPECT_EQ(options.min_tokens, 2U);
  EXPECT_EQ(options.stop_token_ids, (std::vector<TokenId>{3, 9}));
  EXPECT_TRUE(options.include_stop);
  EXPECT_FALSE(options.skip_special_tokens);
  EXPECT_EQ(options.bad_words, std::vector<std::string>{"x"});
  EXPECT_EQ(options.allowed_token_ids, (std::vector<TokenId>{1, 5}));
  EXPECT_EQ(options.prompt_logprobs, 2);
  EXPECT_TRUE(options.return_token_ids);
  EXPECT_FALSE(options.include_reasoning);
  EXPECT_EQ(options.truncate_prompt_tokens, 0U) << "what fits";
  EXPECT_EQ(options.priority, -3);
  EXPECT_EQ(options.cache_salt, "s");
  EXPECT_TRUE(chat(R"("stream": true, "stream_options": {"include_usage": true, "continuous_usage_stats": true})")
                  .options.continuous_usage);
}

TEST(ChatRequest, ReadsEachFormatOfTheText) {
  using Kind = OutputConstraint::Kind;
  const auto constraint = [](const std::string& more) { return chat(more).options.constraint; };
  EXPECT_EQ(constraint(R"("response_format": {"type": "text"})"), nullptr);
  EXPECT_EQ(constraint(R"("response_format": {"type": "json_object"})")->kind, Kind::kJsonObject);
  const auto schema = constraint(
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": false, "schema": {"type": "null"}}})");
  EXPECT_EQ(schema->kind, Kind::kJsonSchema);
  EXPECT_EQ(schema->schema.dump(), R"({"type":"null"})");
  EXPECT_EQ(constraint(R"("structured_outputs": {"json": {"type": "null"}})")->schema, schema->schema);
  EXPECT_EQ(constraint(R"("structured_outputs": {"json": "{\"type\": \"null\"}", "regex": null})")->schema,
            schema->schema);
  EXPECT_EQ(constraint(R"("structured_outputs": {"regex": "a+"})")->text, "a+");
  EXPECT_EQ(constraint(R"("structured_outputs": {"grammar": "root ::= \"a\""})")->kind, Kind::kGbnf);
  EXPECT_EQ(constraint(R"("structured_outputs": {"choice": ["a", "b"]})")->choices,
            (std::vector<std::string>{"a", "b"}));
}

TEST(ChatRequest, NullMeansTheDefault) {
  const ChatRequest request = chat(
      R"("temperature": null, "top_p": null, "n": null, "stop": null, "seed": null, "max_tokens": null, "logit_bias": null,
         "logprobs": null, "top_logprobs": null, "stream": null, "stream_options": null, "tools": null, "response_format": null)");
  EXPECT_EQ(request.options.sampling.temperature, 1);
  EXPECT_EQ(request.options.n, 1U);
  EXPECT_FALSE(request.options.max_tokens.has_value());
  EXPECT_EQ(request.options.sampling.logprobs, -1);
}

TEST(ChatRequest, PrefersMaxCompletionTokens) {
  EXPECT_EQ(chat(R"("max_tokens": 5, "max_completion_tokens": 9)").options.max_tokens, 9U);
}

TEST(ChatRequest, DrawsASeedWhenThereIsNone) {
  EXPECT_NE(chat("").options.sampling.seed, chat("").options.sampling.seed);
}

TEST(ChatRequest, TakesTheLastOfTwoKeysForTheSameToken) {
  const auto bias = chat(R"("logit_bias": {"7": 1, "07": 2})").options.sampling.logit_bias;
  ASSERT_EQ(bias.size(), 1U);
  EXPECT_EQ(bias[0], (std::pair<TokenId, float>{7, 2.F}));
}

TEST(ChatRequest, IgnoresUnknownAndHarmlessFields) {
  chat(R"("user": "u", "metadata": {"a": "b"}, "store": false, "x_unknown": [1, 2], "tools": [], "tool_choice": "none",
          "response_format": {"type": "text"}, "best_of": 1, "min_tokens": 0)");
}

TEST(ChatRequest, RefusesEachWrongValueByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature": 2.5)", "temperature"},
      {R"("temperature": -0.1)", "temperature"},
      {R"("temperature": "hot")", "temperature"},
      {R"("top_p": 1.01)", "top_p"},
      {R"("top_k": 1.5)", "top_k"},
      {R"("top_k": -2)", "top_k"},
      {R"("min_p": -1)", "min_p"},
      {R"("presence_penalty": 3)", "presence_penalty"},
      {R"("frequency_penalty": -3)", "frequency_penalty"},
      {R"("repetition_penalty": 0)", "repetition_penalty"},
      {R"("seed": 1.5)", "seed"},
      {R"("seed": 18446744073709551615)", "seed"},
      {R"("n": 0)", "n"},
      {R"("n": 129)", "n"},
      {R"("n": 1e30)", "n"},
      {R"("stop": ["a", "b", "c", "d", "e"])", "stop"},
      {R"("stop": "")", "stop"},
      {R"("stop": [1])", "stop"},
      {R"("stop": {})", "stop"},
      {R"("max_tokens": 0)", "max_tokens"},
      {R"("max_tokens": -5)", "max_tokens"},
      {R"("max_completion_tokens": "ten")", "max_completion_tokens"},
      {R"("logit_bias": {"1000": 1})", "logit_bias"},
      {R"("logit_bias": {"-1": 1})", "logit_bias"},
      {R"("logit_bias": {"x": 1})", "logit_bias"},
      {R"("logit_bias": {"1": 101})", "logit_bias"},
      {R"("logit_bias": [1])", "logit_bias"},
      {R"("logprobs": 3)", "logprobs"},
      {R"("top_logprobs": 3)", "top_logprobs"},
      {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"("stream": "yes")", "stream"},
      {R"("stream_options": {"include_usage": true})", "stream_options"},
      {R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
      {R"("chat_template_kwargs": {"messages": []})", "chat_template_kwargs"},
      {R"("chat_template_kwargs": 1)", "chat_template_kwargs"},
      {R"("model": 7)", "model"},
      {R"("stream": true, "stream_options": [])", "stream_options"},
      {R"("stream": true, "stream_options": {"continuous_usage_stats": 1})", "stream_options.continuous_usage_stats"},
      {R"("min_tokens": -1)", "min_tokens"},
      {R"("min_tokens": 3, "max_tokens": 2)", "min_tokens"},
      {R"("stop_token_ids": 3)", "stop_token_ids"},
      {R"("stop_token_ids": [1000])", "stop_token_ids"},
      {R"("stop_token_ids": [-1])", "stop_token_ids"},
      {R"("include_stop_str_in_output": 1)", "include_stop_str_in_output"},
      {R"("skip_special_tokens": "no")", "skip_special_tokens"},
      {R"("bad_words": [""])", "bad_words"},
      {R"("bad_words": [1])", "bad_words"},
      {R"("allowed_token_ids": [])", "allowed_token_ids"},
      {R"("allowed_token_ids": [1000])", "allowed_token_ids"},
      {R"("prompt_logprobs": 21)", "prompt_logprobs"},
      {R"("prompt_logprobs": -1)", "prompt_logprobs"},
      {R"("prompt_logprobs": 1, "stream": true)", "prompt_logprobs"},
      {R"("return_token_ids": 1)", "return_token_ids"},
      {R"("truncate_prompt_tokens": 0)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens": -2)", "truncate_prompt_tokens"},
      {R"("priority": 1e10)", "priority"},
      {R"("cache_salt": "")", "cache_salt"},
      {R"("cache_salt": 1)", "cache_salt"},
      {R"("echo": 1)", "echo"},
      {R"("add_generation_prompt": 1)", "add_generation_prompt"},
      {R"("response_format": "json")", "response_format"},
      {R"("response_format": {"type": "xml"})", "response_format"},
      {R"("response_format": {"type": "json_schema"})", "response_format"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})", "response_format"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"schema": 7}})", "response_format"},
      {R"("response_format": {"type": "json_object"}, "ignore_eos": true)", "ignore_eos"},
      {R"("structured_outputs": "a+")", "structured_outputs"},
      {R"("structured_outputs": {})", "structured_outputs"},
      {R"("structured_outputs": {"regex": "a", "choice": ["a"]})", "structured_outputs"},
      {R"("structured_outputs": {"regex": 1})", "structured_outputs.regex"},
      {R"("structured_outputs": {"regex": ""})", "structured_outputs.regex"},
      {R"("structured_outputs": {"grammar": []})", "structured_outputs.grammar"},
      {R"("structured_outputs": {"choice": []})", "structured_outputs.choice"},
      {R"("structured_outputs": {"choice": ["a", ""]})", "structured_outputs.choice"},
      {R"("structured_outputs": {"choice": "a"})", "structured_outputs.choice"},
      {R"("structured_outputs": {"json": 7})", "structured_outputs.json"},
      {R"("structured_outputs": {"json": "{"})", "structured_outputs.json"},
      {R"("structured_outputs": {"structural_tag": "x"})", "structured_outputs"},
      {R"("structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"})", "structured_outputs"},
  };
  for (const auto& [fields, name] : cases) EXPECT_EQ(refused_chat(chat_body(fields)), name) << fields;
}

// NaN is no JSON; numbers so great that they become infinite are refused by the parser or by their bounds.
TEST(ChatRequest, RefusesNumbersThatAreNone) {
  for (const char* number : {"NaN", "Infinity", "1e400", "-1e999"}) {
    const auto parsed = parse_object(R"({"messages": [{"role": "user", "content": "hi"}], "temperature": )" +
                                     std::string(number) + "}");
    EXPECT_TRUE(std::holds_alternative<ApiError>(parsed)) << number;
  }
  EXPECT_EQ(refused_chat(chat_body(R"("top_p": 1e308)")), "top_p");
}

// Each is named, and so is what to use in its place.
TEST(ChatRequest, RefusesWhatItCannotDoByName) {
  const std::array<const char*, 3> cases[] = {
      {R"("tools": [{"type": "custom", "custom": {"name": "f"}}])", "tools[0]", "function"},
      {R"("functions": [{}])", "functions", "'tools'"},
      {R"("function_call": "auto")", "function_call", "'tool_choice'"},
      {R"("guided_json": {"type": "null"})", "guided_json", "'structured_outputs': {\"json\": ...}"},
      {R"("guided_json": {})", "guided_json", "'structured_outputs': {\"json\": ...}"},
      {R"("web_search_options": {})", "web_search_options", "leave it out"},
      {R"("guided_regex": "a")", "guided_regex", "'structured_outputs': {\"regex\": ...}"},
      {R"("guided_choice": ["a"])", "guided_choice", "'structured_outputs': {\"choice\": ...}"},
      {R"("guided_grammar": "a")", "guided_grammar", "'structured_outputs': {\"grammar\": ...}"},
      {R"("grammar": "a")", "grammar", "'structured_outputs': {\"grammar\": ...}"},
      {R"("best_of": 3)", "best_of", "'n'"},
      {R"("chat_template": "x")", "chat_template", "--chat-template"},
      {R"("modalities": ["text", "audio"])", "modalities", "text"},
      {R"("audio": {"voice": "a"})", "audio", "leave it out"},
      {R"("prediction": {"type": "content"})", "prediction", "leave it out"},
      {R"("use_beam_search": true)", "use_beam_search", "leave it out"},
  };
  for (const auto& [fields, name, advice] : cases) {
    EXPECT_EQ(refused_chat(chat_body(fields)), name) << fields;
    const auto parsed = parse_chat_request(chat_body(fields), kVocab);
    EXPECT_NE(std::get<ApiError>(parsed).message.find(advice), std::string::npos) << std::get<ApiError>(parsed).message;
  }
  chat(R"("n": 2, "best_of": 2)");
}

const char* const kTwoTools =
    R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
                 {"type": "function", "function": {"name": "g-2"}}])";

TEST(ChatRequest, ReadsToolsAndWhichOfThemMayBeCalled) {
  using Choice = ToolOptions::Choice;
  const auto callable = [](const std::string& more) {
    const ToolOptions tools = chat(kTwoTools + more).tools;
    EXPECT_EQ(tools.tools.size(), 2U) << "the template gets all of them";
    std::string names;
    for (const ToolOptions::Function& function : tools.callable) names += function.name + " ";
    return std::pair(tools.choice, names);
  };
  EXPECT_EQ(callable(""), std::pair(Choice::kAuto, std::string("f g-2 ")));
  EXPECT_EQ(callable(R"(, "tool_choice": null)"), std::pair(Choice::kAuto, std::string("f g-2 ")));
  EXPECT_EQ(callable(R"(, "tool_choice": "none")").first, Choice::kNone);
  EXPECT_EQ(callable(R"(, "tool_choice": "required")").first, Choice::kRequired);
  EXPECT_EQ(callable(R"(, "tool_choice": {"type": "function", "function": {"name": "g-2"}})"),
            std::pair(Choice::kRequired, std::string("g-2 ")));
  EXPECT_EQ(callable(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
                          "tools": [{"type": "function", "function": {"name": "f"}}]}})"),
            std::pair(Choice::kAuto, std::string("f ")));
  EXPECT_EQ(chat("").tools.choice, Choice::kNone);
  EXPECT_FALSE(chat(kTwoTools + std::string(R"(, "parallel_tool_calls": false)")).options.parallel_tool_calls);
}

TEST(ChatRequest, RefusesWrongToolsByPlace) {
  const std::pair<std::string, const char*> cases[] = {
      {R"("tools": {})", "tools"},
      {R"("tools": [7])", "tools[0]"},
      {R"("tools": [{"function": {"name": "f"}}])", "tools[0]"},
      {R"("tools": [{"type": "function"}])", "tools[0].function"},
      {R"("tools": [{"type": "function", "function": {}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": ""}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": ")" + std::string(129, 'a') + R"("}}])",
       "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])",
       "tools[0].function.parameters"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "strict": 1}}])", "tools[0].function.strict"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "description": 1}}])",
       "tools[0].function.description"},
      {R"("tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}])",
       "tools"},
      {R"("tool_choice": "auto")", "tool_choice"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("tools": [], "tool_choice": {"type": "function", "function": {"name": "f"}})", "tool_choice"},
      {kTwoTools + std::string(R"(, "tool_choice": "always")"), "tool_choice"},
      {kTwoTools + std::string(R"(, "tool_choice": {"type": "function", "function": {"name": "h"}})"), "tool_choice"},
      {kTwoTools + std::string(R"(, "tool_choice": {"type": "function"})"), "tool_choice.function"},
      {kTwoTools + std::string(R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}})"),
       "tool_choice"},
      {kTwoTools + std::string(R"(, "parallel_tool_calls": "no")"), "parallel_tool_calls"},
      {R"("functions": [{"name": "f"}])", "functions"},
      {R"("function_call": "auto")", "function_call"},
  };
  for (const auto& [fields, name] : cases) EXPECT_EQ(refused_chat(chat_body(fields)), name) << fields;
}

TEST(ChatRequest, PassesFurtherVariablesToTheTemplate) {
  const ChatRequest request = chat(
      R"("chat_template_kwargs": {"enable_thinking": false}, "documents": [{"text": "x"}], "reasoning_effort": "low")");
  EXPECT_EQ(request.template_kwargs.dump(),
            R"({"enable_thinking":false,"documents":[{"text":"x"}],"reasoning_effort":"low"})");
  EXPECT_EQ(refused_chat(chat_body(R"("documents": ["x"])")), "documents");
  EXPECT_EQ(refused_chat(chat_body(R"("reasoning_effort": 3)")), "reasoning_effort");
}

TEST(ChatRequest, EitherGoesOnWithTheLastMessageOrBeginsANewOne) {
  EXPECT_TRUE(chat("").add_generation_prompt);
  EXPECT_FALSE(chat(R"("add_generation_prompt": false)").add_generation_prompt);
  const ChatRequest going_on = chat(R"("continue_final_message": true)");
  EXPECT_TRUE(going_on.continue_final_message);
  EXPECT_FALSE(going_on.add_generation_prompt);
  EXPECT_EQ(refused_chat(chat_body(R"("continue_final_message": true, "add_generation_prompt": true)")),
            "continue_final_message");
  EXPECT_EQ(refused_chat(
                Json::parse(R"({"messages": [{"role": "assistant", "content": ""}], "continue_final_message": true})")),
            "continue_final_message");
}

TEST(ChatRequest, AnAssistantWithoutContentSaysNothingUnlessItCalls) {
  const auto content = [](const std::string& message) {
    const auto parsed =
        parse_chat_request(Json::parse(R"({"messages": [{"role": "user", "content": "x"}, )" + message + "]}"), kVocab);
    return std::get<ChatRequest>(parsed).messages[1]["content"];
  };
  EXPECT_EQ(content(R"({"role": "assistant", "content": null})"), "");
  EXPECT_EQ(content(R"({"role": "assistant", "reasoning_content": "hm", "tool_calls": []})"), "");
  EXPECT_TRUE(
      content(R"({"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f"}}]})").is_null());
}

TEST(ChatRequest, RefusesWrongMessagesByPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": "hi"})", "messages"},
      {R"({"messages": [7]})", "messages[0]"},
      {R"({"messages": [{"content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "king", "content": "hi"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "image_url"}]}]})",
       "messages[1].content[0]"},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]})", "messages[0].content[0].text"},
      {R"({"messages": [{"role": "user", "content": ["a"]}]})", "messages[0].content[0]"},
  };
  for (const auto& [body, name] : cases) EXPECT_EQ(refused_chat(Json::parse(body)), name) << body;
}

TEST(ChatRequest, JoinsTextParts) {
  const auto parsed = parse_chat_request(
      Json::parse(
          R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})"),
      kVocab);
  EXPECT_EQ(std::get<ChatRequest>(parsed).messages[0]["content"], "a\nb");
}

TEST(ChatRequest, ParsesArgumentsOfToolCallsInTheHistory) {
  const auto parsed =
      parse_chat_request(Json::parse(R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant",
      "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\":1,\"a\":2}"}}]}]})"),
                         kVocab);
  const Json arguments = std::get<ChatRequest>(parsed).messages[1]["tool_calls"][0]["function"]["arguments"];
  EXPECT_EQ(arguments.dump(), R"({"b":1,"a":2})");
}

TEST(CompletionRequest, ReadsEachShapeOfPrompt) {
  const auto prompts = [](const std::string& prompt) {
    return std::get<CompletionRequest>(parse_completion_request(Json::parse(R"({"prompt": )" + prompt + "}"), kVocab))
        .prompts;
  };
  EXPECT_EQ(prompts(R"("a")").size(), 1U);
  EXPECT_EQ(prompts(R"(["a", "b"])").size(), 2U);
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompts("[1, 2, 3]").at(0)), (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompts("[[1], [2, 3]]").at(1)), (std::vector<TokenId>{2, 3}));
}

TEST(CompletionRequest, RefusesEachWrongValueByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": [[]]})", "prompt"},
      {R"({"prompt": [-1]})", "prompt"},
      {R"({"prompt": [1000]})", "prompt"},
      {R"({"prompt": [99999999999999999999]})", "prompt"},
      {R"({"prompt": [1, "a"]})", "prompt"},
      {R"({"prompt": {"a": 1}})", "prompt"},
      {R"({"prompt": "a", "logprobs": 6})", "logprobs"},
      {R"({"prompt": "a", "logprobs": true})", "logprobs"},
      {R"({"prompt": "a", "max_tokens": 0})", "max_tokens"},
      {R"({"prompt": "a", "min_tokens": 17})", "min_tokens"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix"},
      {R"({"prompt": ["a", "b"], "n": 100})", "n"},
  };
  for (const auto& [body, name] : cases) EXPECT_EQ(refused_completion(body), name) << body;
}

TEST(CompletionRequest, AsksForNoTokensToSeeTheLogProbabilitiesOfThePrompt) {
  const auto parsed =
      parse_completion_request(Json::parse(R"({"prompt": "a", "echo": true, "max_tokens": 0, "logprobs": 2})"), kVocab);
  const CompletionRequest& request = std::get<CompletionRequest>(parsed);
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.options.max_tokens, 0U);
  EXPECT_EQ(request.options.prompt_logprobs, 2);
}

std::string message_of(const std::variant<Json, ApiError>& parsed) {
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? std::string() : error->message;
}

TEST(Json, RefusesBodiesThatAreNotAnObject) {
  for (const std::string_view body : {"", " ", "[1]", "{\"a\": }", "{\"a\": 1e400}", "{\"a\": \"\xff\"}", "{} {}"}) {
    EXPECT_NE(message_of(parse_object(body)), "") << body;
  }
  EXPECT_EQ(message_of(parse_object("{}")), "");
}

// The library takes a zero byte for the end of the text, and what follows would not be read at all.
TEST(Json, RefusesZeroBytes) {
  using namespace std::string_view_literals;
  for (const std::string_view body : {"{\"a\": 1}\0"sv, "{\"a\": 1}\0{\"b\": 2}"sv, "\0{}"sv, "{\"a\": \"\0\"}"sv}) {
    EXPECT_NE(message_of(parse_object(body)), "");
  }
  EXPECT_EQ(message_of(parse_object(R"({"a": "\u0000"})")), "");
}

TEST(Json, DoesNotSendBackTheTextAtFault) {
  EXPECT_LT(message_of(parse_object("{\"a\": 1" + std::string(100'000, '0') + "}")).size(), 300U);
  EXPECT_LT(message_of(parse_object("{\"a\": \"" + std::string(100'000, 'x') + "\x01\"}")).size(), 300U);
}

TEST(Json, TakesABodyThatItsHeaderCallsJson) {
  const auto refused = [](http::Headers headers) {
    return check_content_headers({.headers = std::move(headers)}).has_value();
  };
  EXPECT_FALSE(refused({}));
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"}) {
    EXPECT_FALSE(refused({{"Content-Type", type}})) << type;
    EXPECT_FALSE(refused({{"Content-Type", type}, {"Origin", "https://a.example"}})) << type;
  }
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"}) {
    EXPECT_TRUE(refused({{"Content-Type", type}})) << type;
  }
  EXPECT_TRUE(refused({{"Content-Encoding", "gzip"}}));
}

// What a page may send to any server without asking has no type, or one of those refused above.
TEST(Json, TakesNoBodyWithoutATypeFromAWebPage) {
  EXPECT_TRUE(check_content_headers({.headers = {{"Origin", "https://a.example"}}}).has_value());
  EXPECT_TRUE(check_content_headers({.headers = {{"Origin", "null"}}}).has_value());
}

// Members are found by looking at one name after another: a million of them in one object would take hours.
TEST(Json, RefusesObjectsWithTooManyMembers) {
  const auto object_of = [](int members) {
    std::string text = "{\"x\":{";
    for (int i = 0; i < members; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
    return text + "}}";
  };
  EXPECT_TRUE(std::holds_alternative<Json>(parse_object(object_of(2000))));
  const auto parsed = parse_object(object_of(3000));
  const auto* error = std::get_if<ApiError>(&parsed);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->message, "The body has objects with too many members.");
}

TEST(Json, TakesManySmallObjects) {
  std::string text = "{\"x\":[{}";
  for (int i = 0; i < 50'000; ++i) text += ",{\"role\":\"user\",\"content\":\"a:b\"}";
  EXPECT_TRUE(std::holds_alternative<Json>(parse_object(text + "]}")));
}

// {"x": [value, value, ...]}
std::string body_of_many(const std::string& value, size_t count) {
  std::string text = "{\"x\":[" + value;
  for (size_t i = 1; i < count; ++i) text += ',' + value;
  return text + "]}";
}

const std::vector<std::string> kSmallValues = {"1",     "[]",          "{}", "\"\"", "\"0123456789abcdef\"",
                                               "[[1]]", R"({"a":"b"})"};

TEST(Json, RefusesBodiesWhoseValuesTakeFarMoreMemoryThanTheirText) {
  for (const std::string& value : kSmallValues) {
    const auto parsed = parse_object(body_of_many(value, (size_t{8} << 20) / (value.size() + 1)));
    const auto* error = std::get_if<ApiError>(&parsed);
    ASSERT_NE(error, nullptr) << value;
    EXPECT_EQ(error->message, "The body has too many values: parsed, they would take more than 32 MiB.") << value;
  }
  EXPECT_TRUE(std::holds_alternative<Json>(parse_object(body_of_many("128000", 1'000'000))));
}

// Bytes in use by malloc(); 0 under a sanitizer, whose allocator does not count.
size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The estimate holds for what the library really allocates.
TEST(Json, TakesNoMoreMemoryThanTheGuardCounts) {
  for (const std::string& value : kSmallValues) {
    const std::string text = body_of_many(value, 10'000);
    JsonGuard guard(kJsonDepthMax);
    ASSERT_TRUE(guard.check(text).ok());
    const size_t before = heap_bytes();
    const Json json = Json::parse(text);
    EXPECT_LE(heap_bytes() - before, guard.node_bytes() + text.size()) << value;
  }
}

Json call_with_arguments(std::string arguments, size_t calls) {
  Json body = chat_body();
  Json message = {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array()}};
  for (size_t i = 0; i < calls; ++i) message["tool_calls"].push_back({{"function", {{"arguments", arguments}}}});
  body["messages"].push_back(std::move(message));
  return body;
}

// The JSON inside a string of the body is held to the same limits as the body.
TEST(ChatRequest, RefusesToolArgumentsThatNestTooDeep) {
  const auto nested = [](size_t depth) { return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  EXPECT_EQ(refused_chat(call_with_arguments(nested(100), 1)), "");
  EXPECT_EQ(refused_chat(call_with_arguments(nested(200'000), 1)), "messages[1].tool_calls");
}

TEST(ChatRequest, RefusesToolArgumentsWithTooManyMembersInAll) {
  std::string arguments = "{";
  for (int i = 0; i < 1500; ++i) arguments += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  arguments += "}";
  EXPECT_EQ(refused_chat(call_with_arguments(arguments, 1)), "");
  EXPECT_EQ(refused_chat(call_with_arguments(arguments, 2)), "messages[1].tool_calls");
}

TEST(Json, RefusesDeepNestingBeforeParsingIt) {
  const std::string deep = "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const auto parsed = parse_object(deep);
  ASSERT_TRUE(std::holds_alternative<ApiError>(parsed));
  EXPECT_NE(std::get<ApiError>(parsed).message.find("nested"), std::string::npos);
  EXPECT_TRUE(std::holds_alternative<Json>(parse_object("{\"a\": \"" + std::string(1000, '[') + "\"}")));
}

TEST(ApiError, AlwaysHasItsFourKeys) {
  const Json bare = Json::parse(error_json({.message = "no"}));
  EXPECT_EQ(bare.dump(), R"({"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}})");
  const http::HttpResponse busy = error_response(to_api_error(resource_exhausted("later")));
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.at(0), (std::pair<std::string, std::string>{"Retry-After", "1"}));
}

TEST(ApiError, SaysOfAnObjectiveThatCannotBeMetWhetherToTryAgain) {
  const ApiError late = to_api_error(deadline_exceeded("late"), 7);
  EXPECT_EQ(error_response(late).headers, (http::Headers{{"Retry-After", "7"}}));
  EXPECT_EQ(late.code, "objective_unreachable");
  EXPECT_EQ(refusal_reason(late), "objective");
  const ApiError never = to_api_error(deadline_exceeded("never"), 0);
  EXPECT_EQ(error_response(never).headers, (http::Headers{{"x-should-retry", "false"}}));
  EXPECT_EQ(refusal_reason(never), "unattainable");
  EXPECT_EQ(refusal_reason(to_api_error(resource_exhausted("full"))), "limit");
  EXPECT_EQ(refusal_reason(to_api_error(unavailable("ending"))), "unavailable");
  EXPECT_EQ(refusal_reason(bad_field("n", "no")), "invalid");
}

}  // namespace
}  // namespace twostroke::openai
