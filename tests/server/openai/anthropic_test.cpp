// Anthropic's protocol: what its requests mean as chat, and that its events add up to the whole message.
#include <gtest/gtest.h>

#include "event_frames.h"
#include "server/openai/anthropic/anthropic_format.h"
#include "server/openai/anthropic/anthropic_request.h"

namespace twostroke::openai {
namespace {

constexpr int32_t kAnthropicVocab = 1000;

AnthropicRequest anthropic_request(const std::string& fields) {
  auto parsed = parse_anthropic_request(Json::parse("{\"max_tokens\": 9, " + fields + "}"), kAnthropicVocab);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  return std::get<AnthropicRequest>(std::move(parsed));
}

TEST(AnthropicRequest, SystemAndTextBecomeMessages) {
  const AnthropicRequest request = anthropic_request(
      R"("system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
         "messages": [{"role": "user", "content": "hi"}], "stop_sequences": ["x"], "top_k": 5)");
  EXPECT_EQ(request.chat.messages.dump(), R"([{"role":"system","content":"a\nb"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(request.chat.options.max_tokens, 9U);
  EXPECT_EQ(request.chat.options.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(request.chat.options.sampling.top_k, 5);
  EXPECT_TRUE(request.shows_thinking);
}

TEST(AnthropicRequest, BlocksOfATurnBecomeTheMessagesThatChatHasForThem) {
  const AnthropicRequest request = anthropic_request(R"("messages": [
    {"role": "user", "content": "weather?"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
      {"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
      {"type": "tool_use", "id": "t2", "name": "g", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "sun"},
      {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "rain"}], "is_error": true},
      {"type": "text", "text": "so?"}]}])");
  const Json& messages = request.chat.messages;
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["content"], "Let me see.");
  EXPECT_EQ(messages[1]["tool_calls"][0].dump(),
            R"({"id":"t1","type":"function","function":{"name":"f","arguments":{"a":1}}})");
  EXPECT_EQ(messages[2].dump(), R"({"role":"tool","tool_call_id":"t1","content":"sun"})");
  EXPECT_EQ(messages[3]["content"], "rain");
  EXPECT_EQ(messages[4].dump(), R"({"role":"user","content":"so?"})");
}

TEST(AnthropicRequest, ToolsAreFunctionsAndAnyMeansRequired) {
  const std::string tools = R"("messages": [{"role": "user", "content": "x"}], "tools": [
    {"name": "f", "description": "d", "input_schema": {"type": "object"}}, {"name": "g", "input_schema": {}}], )";
  const AnthropicRequest any =
      anthropic_request(tools + R"("tool_choice": {"type": "any", "disable_parallel_tool_use": true})");
  EXPECT_EQ(any.chat.tools.choice, ToolOptions::Choice::kRequired);
  EXPECT_FALSE(any.chat.tools.parallel);
  EXPECT_EQ(any.chat.tools.tools[0].dump(),
            R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})");
  const AnthropicRequest one = anthropic_request(tools + R"("tool_choice": {"type": "tool", "name": "g"})");
  ASSERT_EQ(one.chat.tools.callable.size(), 1U);
  EXPECT_EQ(one.chat.tools.callable[0].name, "g");
  EXPECT_EQ(anthropic_request(tools + R"("tool_choice": {"type": "none"})").chat.tools.choice,
            ToolOptions::Choice::kNone);
}

TEST(AnthropicRequest, ThinkingIsATemplatesChoice) {
  const std::string messages = R"("messages": [{"role": "user", "content": "x"}], )";
  const AnthropicRequest on = anthropic_request(messages + R"("thinking": {"type": "enabled", "budget_tokens": 1024})");
  EXPECT_EQ(on.chat.template_kwargs["enable_thinking"], true);
  EXPECT_TRUE(on.shows_thinking);
  const AnthropicRequest off = anthropic_request(messages + R"("thinking": {"type": "disabled"})");
  EXPECT_EQ(off.chat.template_kwargs["enable_thinking"], false);
  EXPECT_FALSE(off.shows_thinking);
}

TEST(AnthropicRequest, AFinalMessageOfTheAssistantIsContinued) {
  const AnthropicRequest request =
      anthropic_request(R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "It is"}])");
  EXPECT_TRUE(request.chat.continue_final_message);
  EXPECT_FALSE(request.chat.add_generation_prompt);
}

TEST(AnthropicRequest, OnlyCountingNeedsNoMaxTokens) {
  const Json body = Json::parse(R"({"messages": [{"role": "user", "content": "x"}]})");
  EXPECT_TRUE(std::holds_alternative<AnthropicRequest>(parse_count_tokens_request(body, kAnthropicVocab)));
  const auto parsed = parse_anthropic_request(body, kAnthropicVocab);
  ASSERT_TRUE(std::holds_alternative<ApiError>(parsed));
  EXPECT_EQ(std::get<ApiError>(parsed).param, "max_tokens");
}

TEST(AnthropicRequest, RefusesEachWrongValueInItsOwnWords) {
  const std::string hello = R"("messages": [{"role": "user", "content": "x"}], )";
  const std::pair<std::string, const char*> cases[] = {
      {R"("messages": [])", "messages"},
      {R"("messages": [5])", "messages[0]"},
      {R"("messages": [{"role": "tool", "content": "x"}])", "messages[0].role"},
      {R"("messages": [{"role": "user"}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": []}])", "messages[0].content"},
      {R"("messages": [{"role": "user", "content": [{"type": "image"}]}])", "messages[0].content[0]"},
      {R"("messages": [{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text"},
      {R"("messages": [{"role": "user", "content": [{"type": "tool_result"}]}])", "messages[0].content[0].tool_use_id"},
      {R"("messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}])",
       "messages[0].content[0].input"},
      {R"("messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": ""}]}])",
       "messages[0].content[0]"},
      {hello + R"("system": [{"type": "image"}])", "system[0]"},
      {hello + R"("temperature": 1.1)", "temperature"},
      {hello + R"("top_p": 2)", "top_p"},
      {hello + R"("stop_sequences": "x")", "stop_sequences"},
      {hello + R"("stop_sequences": [""])", "stop_sequences"},
      {hello + R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])", "tools[0].type"},
      {hello + R"("tools": [{"name": "f"}])", "tools[0].input_schema"},
      {hello + R"("tool_choice": "auto")", "tool_choice"},
      {hello + R"("tool_choice": {"type": "any"})", "tool_choice"},
      {hello + R"("tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "tool"})", "tool_choice.name"},
      {hello + R"("tool_choice": {"type": "auto", "disable_parallel_tool_use": 1})",
       "tool_choice.disable_parallel_tool_use"},
      {hello + R"("thinking": {"type": "loud"})", "thinking"},
      {hello + R"("output_config": {"format": {"type": "xml"}})", "output_config.format"},
      {hello + R"("mcp_servers": [{}])", "mcp_servers"},
      {hello + R"("container": "c")", "container"},
      {hello + R"("n": 2)", "n"},
      {hello + R"("guided_json": {"type": "object"})", "guided_json"},
  };
  for (const auto& [fields, name] : cases) {
    const auto parsed = parse_anthropic_request(Json::parse("{\"max_tokens\": 9, " + fields + "}"), kAnthropicVocab);
    ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << fields;
    const ApiError& error = std::get<ApiError>(parsed);
    EXPECT_EQ(error.param, name) << fields;
    EXPECT_NE(error.message.find(std::string("'") + name + "'"), std::string::npos) << error.message;
  }
}

// Thought, text and two calls.
std::vector<Piece> message_pieces() {
  return {
      {.reasoning = "Let "},
      {.text = "Gr\xC3\xBC", .reasoning = "me \"see\"."},
      {.text = "n"},
      {.tool_calls = {{.index = 0, .begins = true, .name = "f", .id = "call_1", .arguments = "{\"a\":"}}},
      {.tool_calls = {{.index = 0, .arguments = "1}"},
                      {.index = 1, .begins = true, .name = "g", .id = "call_2", .arguments = "{}"}}},
      {.finished = FinishReason::kStop},
  };
}

std::vector<Json> streamed_message(const std::vector<Piece>& pieces, bool shows_thinking = true) {
  AnthropicFormat format("m", shows_thinking, "req_1");
  std::string out;
  format.begin({.prompt_tokens = 3}, out);
  for (const Piece& piece : pieces) format.piece(piece, out);
  format.end({3, 4, 1}, out);
  return event_frames(out);
}

Json whole_message(const std::vector<Piece>& pieces, bool shows_thinking = true) {
  AnthropicFormat format("m", shows_thinking, "req_1");
  for (const Piece& piece : pieces) format.collect(Piece(piece));
  return Json::parse(format.body({3, 4, 1}));
}

// What a client makes of the events.
Json fold_message(const std::vector<Json>& events) {
  Json message;
  std::string arguments;
  for (const Json& event : events) {
    const std::string type = event["type"].get<std::string>();
    if (type == "message_start") {
      message = event["message"];
    } else if (type == "content_block_start") {
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
      arguments.clear();
    } else if (type == "content_block_delta") {
      const Json& delta = event["delta"];
      Json& block = message["content"][event["index"].get<size_t>()];
      if (delta["type"] == "input_json_delta") {
        arguments += delta["partial_json"].get<std::string>();
        continue;
      }
      const char* field = delta["type"] == "thinking_delta" ? "thinking" : "text";
      block[field] = block[field].get<std::string>() + delta[field].get<std::string>();
    } else if (type == "content_block_stop") {
      if (!arguments.empty()) message["content"].back()["input"] = Json::parse(arguments);
    } else if (type == "message_delta") {
      for (const auto& [name, value] : event["delta"].items()) message[name] = value;
      message["usage"] = event["usage"];
    }
  }
  return message;
}

TEST(AnthropicFormat, TheEventsAddUpToTheWholeMessage) {
  const std::vector<Json> events = streamed_message(message_pieces());
  Json folded = fold_message(events), whole = whole_message(message_pieces());
  EXPECT_EQ(events.back()["type"], "message_stop");
  EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 3);
  folded.erase("id");
  whole.erase("id");
  EXPECT_EQ(folded, whole);
  ASSERT_EQ(whole["content"].size(), 4U);
  EXPECT_EQ(whole["content"][0]["thinking"], "Let me \"see\".");
  EXPECT_EQ(whole["content"][1]["text"], "Gr\xC3\xBCn");
  EXPECT_EQ(whole["content"][2].dump(), R"({"type":"tool_use","id":"call_1","name":"f","input":{"a":1}})");
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  EXPECT_EQ(whole["usage"]["input_tokens"], 2) << "what was cached is counted apart";
  EXPECT_EQ(whole["usage"]["cache_read_input_tokens"], 1);
}

TEST(AnthropicFormat, ThinkingStaysInsideWhenItIsSwitchedOff) {
  const Json whole = whole_message(message_pieces(), /*shows_thinking=*/false);
  EXPECT_EQ(whole["content"][0]["type"], "text");
  EXPECT_EQ(fold_message(streamed_message(message_pieces(), false))["content"], whole["content"]);
}

TEST(AnthropicFormat, SaysWhatEndedTheMessage) {
  const auto reason = [](Piece last) {
    const Json whole = whole_message({{.text = "a"}, std::move(last)});
    return whole["stop_reason"].get<std::string>() + "/" + whole["stop_sequence"].dump();
  };
  EXPECT_EQ(reason({.finished = FinishReason::kStop}), "end_turn/null");
  EXPECT_EQ(reason({.finished = FinishReason::kLength}), "max_tokens/null");
  EXPECT_EQ(reason({.finished = FinishReason::kStop, .stop_reason = std::string("x\"")}), R"(stop_sequence/"x\"")");
  EXPECT_EQ(reason({.finished = FinishReason::kStop, .stop_reason = TokenId{5}}), "end_turn/null");
}

TEST(AnthropicFormat, ACallThatWasCutOffHasAnObjectForInput) {
  const Json whole = whole_message({{.tool_calls = {{.begins = true, .name = "f", .id = "c", .arguments = "{\"a\":"}}},
                                    {.finished = FinishReason::kLength}});
  EXPECT_EQ(whole["content"][0]["input"], Json::object());
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
}

TEST(AnthropicFormat, ErrorsHaveAnthropicsShapeAndTypes) {
  AnthropicFormat format("m", true, "req_1");
  std::string out;
  format.fault({.status = 500, .message = "it broke"}, {}, out);
  EXPECT_EQ(event_frames(out)[0].dump(),
            R"({"type":"error","error":{"type":"api_error","message":"it broke"},"request_id":"req_1"})");
  const auto type = [](int status) {
    const http::HttpResponse response = anthropic_error_response({.status = status, .message = ""}, "r");
    EXPECT_EQ(response.status, status);
    return Json::parse(response.body)["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(type(400), "invalid_request_error");
  EXPECT_EQ(type(404), "not_found_error");
  EXPECT_EQ(type(429), "rate_limit_error");
  EXPECT_EQ(type(503), "overloaded_error");
}

}  // namespace
}  // namespace twostroke::openai
