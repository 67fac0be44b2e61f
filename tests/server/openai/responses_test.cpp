// The responses protocol: what its requests mean as chat, and that its events add up to the whole answer.
#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "event_frames.h"
#include "server/openai/responses/responses_format.h"
#include "server/openai/responses/responses_request.h"

namespace twostroke::openai {
namespace {

constexpr int32_t kResponsesVocab = 1000;

ResponsesRequest response_request(const std::string& body) {
  auto parsed = parse_responses_request(Json::parse(body), kResponsesVocab);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  return std::get<ResponsesRequest>(std::move(parsed));
}

ApiError refused_response(const std::string& body) {
  const auto parsed = parse_responses_request(Json::parse(body), kResponsesVocab);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? ApiError{} : *error;
}

TEST(ResponsesRequest, TextAndInstructionsBecomeMessages) {
  const ResponsesRequest request = response_request(R"({"input": "hi", "instructions": "be brief"})");
  EXPECT_EQ(request.chat.messages.dump(), R"([{"role":"system","content":"be brief"},{"role":"user","content":"hi"}])");
  EXPECT_TRUE(request.has_instructions);
  EXPECT_TRUE(request.store);
  EXPECT_EQ(request.input_items[0]["content"].dump(), R"([{"type":"input_text","text":"hi"}])");
  EXPECT_FALSE(request.input_items[0]["id"].get<std::string>().empty());
}

TEST(ResponsesRequest, ItemsOfOneTurnBecomeOneMessage) {
  const ResponsesRequest request = response_request(R"({"input": [
    {"role": "user", "content": "weather?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]},
    {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
    {"type": "message", "role": "assistant", "content": "done"}]})");
  const Json& messages = request.chat.messages;
  ASSERT_EQ(messages.size(), 6U);
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["content"], "Let me see.");
  ASSERT_EQ(messages[1]["tool_calls"].size(), 2U);
  EXPECT_EQ(messages[1]["tool_calls"][0]["id"], "c1");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"a":1})");
  EXPECT_EQ(messages[2]["role"], "tool");
  EXPECT_EQ(messages[2]["tool_call_id"], "c1");
  EXPECT_EQ(messages[3]["content"], "rain");
  EXPECT_EQ(messages[4]["tool_calls"][0]["id"], "c3");
  EXPECT_EQ(messages[5]["content"], "done") << "text behind a call begins a message of its own";
  EXPECT_EQ(request.input_items.size(), 9U);
}

TEST(ResponsesRequest, ParametersAreChatsUnderOtherNames) {
  const ResponsesRequest request = response_request(
      R"({"input": "x", "max_output_tokens": 7, "temperature": 0.5, "seed": 3, "ignore_eos": true, "stream": true})");
  EXPECT_EQ(request.chat.options.max_tokens, 7U);
  EXPECT_EQ(request.chat.options.sampling.temperature, 0.5F);
  EXPECT_EQ(request.chat.options.sampling.seed, 3U);
  EXPECT_TRUE(request.chat.options.ignore_eos);
  EXPECT_TRUE(request.chat.options.stream);
  EXPECT_EQ(request.echo["max_output_tokens"], 7);
  EXPECT_EQ(request.echo["top_p"], 1.0);
}

TEST(ResponsesRequest, ToolsAreFlatFunctions) {
  const ResponsesRequest request = response_request(R"({"input": "x", "parallel_tool_calls": false,
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}, {"type": "function", "name": "g"}],
    "tool_choice": {"type": "function", "name": "g"}})");
  EXPECT_EQ(request.chat.tools.tools[0].dump(),
            R"({"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}})");
  EXPECT_EQ(request.chat.tools.choice, ToolOptions::Choice::kRequired);
  ASSERT_EQ(request.chat.tools.callable.size(), 1U);
  EXPECT_EQ(request.chat.tools.callable[0].name, "g");
  EXPECT_FALSE(request.chat.tools.parallel);
  EXPECT_EQ(request.echo["tools"][0]["name"], "f");
  EXPECT_EQ(response_request(R"({"input": "x", "tool_choice": "auto", "tools": []})").chat.tools.choice,
            ToolOptions::Choice::kNone);
}

TEST(ResponsesRequest, RefusesEachWrongValueInItsOwnWords) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input": 5})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": [5]})", "input[0]"},
      {R"({"input": [{"role": "king", "content": "x"}]})", "input[0].role"},
      {R"({"input": [{"role": "tool", "content": "x"}]})", "input[0].role"},
      {R"({"input": [{"role": "user"}]})", "input[0].content"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file"}]}]})", "input[0].content[0]"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]})", "input[0].content[0].text"},
      {R"({"input": [{"type": "item_reference", "id": "x"}]})", "input[0].type"},
      {R"({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]})", "input[0].call_id"},
      {R"({"input": [{"type": "function_call_output", "call_id": "c"}]})", "input[0].output"},
      {R"({"input": "x", "instructions": 5})", "instructions"},
      {R"({"input": "x", "max_output_tokens": 0})", "max_output_tokens"},
      {R"({"input": "x", "temperature": 3})", "temperature"},
      {R"({"input": "x", "metadata": {"a": 1}})", "metadata"},
      {R"({"input": "x", "store": "yes"})", "store"},
      {R"({"input": "x", "background": true, "store": false})", "background"},
      {R"({"input": "x", "background": true, "stream": true})", "background"},
      {R"({"input": "x", "tools": [{"type": "mcp"}]})", "tools[0]"},
      {R"({"input": "x", "tool_choice": {"type": "file_search"}})", "tool_choice"},
      {R"({"input": "x", "text": {"verbosity": "low"}})", "text.verbosity"},
      {R"({"input": "x", "reasoning": {"summary": "detailed"}})", "reasoning.summary"},
      {R"({"input": "x", "include": ["reasoning.encrypted_content"]})", "include"},
      {R"({"input": "x", "top_logprobs": 3})", "top_logprobs"},
      {R"({"input": "x", "include": ["message.output_text.logprobs"], "top_logprobs": 21})", "top_logprobs"},
      {R"({"input": "x", "truncation": "auto"})", "truncation"},
      {R"({"input": "x", "conversation": "c"})", "conversation"},
      {R"({"input": "x", "prompt": {"id": "p"}})", "prompt"},
      {R"({"input": "x", "max_tool_calls": 1})", "max_tool_calls"},
      {R"({"input": "x", "service_tier": "flex"})", "service_tier"},
      {R"({"input": "x", "max_tokens": 5})", "max_tokens"},
      {R"({"input": "x", "response_format": {"type": "text"}})", "response_format"},
      {R"({"input": "x", "n": 2})", "n"},
      {R"({"input": "x", "guided_regex": "a"})", "guided_regex"},
      {R"({"input": "x", "user": 5})", "user"},
      {R"({"input": "x", "text": {"format": {"type": "json_schema"}}})", "text.format"},
      {R"({"input": "x", "tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function"}})",
       "tool_choice.name"},
      {R"({"input": "x", "tools": [{"type": "function", "name": "f"}],
           "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]}})",
       "tool_choice.tools[0].name"},
  };
  for (const auto& [body, name] : cases) {
    const ApiError error = refused_response(body);
    EXPECT_EQ(error.param, name) << body;
    EXPECT_NE(error.message.find(std::string("'") + name + "'"), std::string::npos) << error.message;
  }
}

// A message may name other fields than the one at fault.
TEST(ResponsesRequest, MessagesHaveTheProtocolsNamesOnly) {
  EXPECT_NE(refused_response(R"({"input": "x", "text": {"format": {"type": "json_schema"}}})")
                .message.find("'text.format.schema'"),
            std::string::npos);
  EXPECT_NE(refused_response(R"({"input": "x", "max_output_tokens": 2, "min_tokens": 3})")
                .message.find("'max_output_tokens'"),
            std::string::npos);
  const FieldNames names = {{"a", "b"}};
  EXPECT_EQ(in_client_words(names, {.message = "It's 'a' that is the client's fault, 'a.x' or 'ab'."}).message,
            "It's 'b' that is the client's fault, 'b.x' or 'ab'.");
}

// What a schema or a template does not allow is found when the chat is prepared.
TEST(ResponsesRequest, KnowsItsOwnNamesForLaterErrors) {
  const ResponsesRequest request = response_request(
      R"({"input": [{"role": "user", "content": "x"}], "text": {"format": {"type": "text"}}, "instructions": "y"})");
  const auto renamed = [&](const char* param) {
    const ApiError error = in_client_words(request.names, bad_field(param, std::string("'") + param + "' is wrong."));
    return *error.param + "/" + error.message;
  };
  EXPECT_EQ(renamed("response_format.json_schema.schema"), "text.format.schema/'text.format.schema' is wrong.");
  EXPECT_EQ(renamed("messages[1].content"), "input[0].content/'input[0].content' is wrong.");
  EXPECT_EQ(renamed("messages"), "input/'input' is wrong.");
  EXPECT_EQ(renamed("temperature"), "temperature/'temperature' is wrong.");
}

TEST(ResponsesRequest, HistoryComesBetweenInstructionsAndInput) {
  ResponsesRequest request = response_request(R"({"input": "c", "instructions": "i"})");
  EXPECT_FALSE(insert_history(request, Json::parse(R"([{"content": "a"}, {"content": "b"}])")));
  std::string order;
  for (const Json& message : request.chat.messages) order += message["content"].get<std::string>();
  EXPECT_EQ(order, "iabc");
  Json many = Json::array();
  for (size_t i = 0; i < kMessagesMax; ++i) many.push_back(Json::object());
  EXPECT_TRUE(insert_history(request, std::move(many)).has_value());
}

// Thought, text, two calls, and what a stop string let go at the end.
std::vector<Piece> turn_pieces(FinishReason finish) {
  return {
      {.reasoning = "Let ", .usage = {3, 2, 0}},
      {.reasoning = "me \"see\".", .usage = {3, 5, 0}},
      {.text = "Gr\xC3\xBC", .entries = {{'G', -0.5F, {}, 0}}},
      {.text = "n", .entries = {{'n', -1.F, {}, 4}}},
      {.tool_calls = {{.index = 0, .begins = true, .name = "f", .id = "call_1", .arguments = "{\"a\":"}}},
      {.tool_calls = {{.index = 0, .arguments = "1}"},
                      {.index = 1, .begins = true, .name = "g", .id = "call_2", .arguments = "{}"}}},
      {.finished = finish},
  };
}

struct ResponsesRun {
  std::vector<Json> events;
  Json whole, message;
};

ResponsesRun run_responses(const std::vector<Piece>& pieces) {
  const ByteTokenizer tokenizer;
  const ResponsesRequest request =
      response_request(R"({"input": "x", "include": ["message.output_text.logprobs"], "metadata": {"k": "v"}})");
  ResponsesRun run;
  ResponsesFormat streamed(tokenizer, "m", request,
                           [&](const std::string&, const Json& message) { run.message = message; });
  ResponsesFormat whole(tokenizer, "m", request, nullptr);
  std::string out;
  streamed.begin({.prompt_tokens = 3}, out);
  for (const Piece& piece : pieces) {
    streamed.piece(piece, out);
    whole.collect(Piece(piece));
  }
  streamed.end({3, 4, 1}, out);
  run.events = event_frames(out);
  run.whole = Json::parse(whole.body({3, 4, 1}));
  return run;
}

// Ids and times differ from answer to answer.
Json without_ids(Json response) {
  for (const char* name : {"id", "created_at", "completed_at"}) response.erase(name);
  for (Json& item : response["output"]) item.erase("id");
  return response;
}

TEST(ResponsesFormat, TheEventsAddUpToTheWholeAnswer) {
  const ResponsesRun run = run_responses(turn_pieces(FinishReason::kStop));
  Json output = Json::array();
  for (size_t i = 0; i < run.events.size(); ++i) {
    const Json& event = run.events[i];
    EXPECT_EQ(event["sequence_number"], i);
    const std::string type = event["type"].get<std::string>();
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], output.size());
      EXPECT_EQ(event["item"]["status"], "in_progress");
      output.push_back(event["item"]);
    } else if (type == "response.content_part.added") {
      EXPECT_EQ(event["item_id"], output.back()["id"]);
      output.back()["content"].push_back(event["part"]);
    } else if (type == "response.reasoning_text.delta" || type == "response.output_text.delta") {
      Json& part = output.back()["content"][event["content_index"].get<size_t>()];
      part["text"] = part["text"].get<std::string>() + event["delta"].get<std::string>();
      if (event.contains("logprobs")) {
        for (const Json& entry : event["logprobs"]) part["logprobs"].push_back(entry);
      }
    } else if (type == "response.function_call_arguments.delta") {
      output.back()["arguments"] = output.back()["arguments"].get<std::string>() + event["delta"].get<std::string>();
    } else if (type == "response.output_item.done") {
      output.back()["status"] = "completed";
      EXPECT_EQ(event["item"], output.back());
    }
  }
  EXPECT_EQ(run.events[0]["type"], "response.created");
  EXPECT_EQ(run.events[1]["type"], "response.in_progress");
  EXPECT_EQ(run.events.back()["type"], "response.completed");
  const Json& final = run.events.back()["response"];
  EXPECT_EQ(final["output"], output);
  EXPECT_EQ(without_ids(final), without_ids(run.whole));
  std::vector<std::string> kinds;
  for (const Json& item : output) kinds.push_back(item["type"].get<std::string>());
  EXPECT_EQ(kinds, (std::vector<std::string>{"reasoning", "message", "function_call", "function_call"}));
  EXPECT_EQ(output[1]["content"][0]["logprobs"].size(), 2U);
  EXPECT_EQ(final["usage"]["input_tokens_details"]["cached_tokens"], 1);
  EXPECT_EQ(final["usage"]["output_tokens_details"]["reasoning_tokens"], 5);
  EXPECT_EQ(final["metadata"]["k"], "v");
  EXPECT_EQ(final["status"], "completed");
  EXPECT_TRUE(final["error"].is_null() && final["incomplete_details"].is_null());
}

TEST(ResponsesFormat, LeavesTheTurnAsALaterChatHasIt) {
  const ResponsesRun run = run_responses(turn_pieces(FinishReason::kStop));
  EXPECT_EQ(run.message["reasoning_content"], "Let me \"see\".");
  EXPECT_EQ(run.message["content"], "Gr\xC3\xBCn");
  EXPECT_EQ(run.message["tool_calls"][0].dump(),
            R"({"id":"call_1","type":"function","function":{"name":"f","arguments":{"a":1}}})");
}

TEST(ResponsesFormat, AnAnswerCutShortIsIncomplete) {
  const ResponsesRun run = run_responses({{.text = "a"}, {.finished = FinishReason::kLength}});
  EXPECT_EQ(run.events.back()["type"], "response.incomplete");
  EXPECT_EQ(run.whole["status"], "incomplete");
  EXPECT_EQ(run.whole["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(run.whole["output"][0]["status"], "incomplete");
}

TEST(ResponsesFormat, AnAnswerWithoutTextHasAnEmptyMessage) {
  const ResponsesRun run = run_responses({{.finished = FinishReason::kStop}});
  EXPECT_EQ(run.whole["output"][0]["content"][0]["text"], "");
}

TEST(ResponsesFormat, AFaultEndsTheStreamWithAFailedResponse) {
  const ByteTokenizer tokenizer;
  ResponsesFormat format(tokenizer, "m", response_request(R"({"input": "x"})"),
                         [](const std::string&, const Json&) { FAIL() << "nothing to keep"; });
  std::string out;
  format.begin({}, out);
  format.piece({.text = "half"}, out);
  format.fault({.status = 500, .message = "it broke"}, {}, out);
  const Json last = event_frames(out).back();
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"]["message"], "it broke");
  EXPECT_EQ(last["response"]["output"][0]["content"][0]["text"], "half");
}

}  // namespace
}  // namespace twostroke::openai
