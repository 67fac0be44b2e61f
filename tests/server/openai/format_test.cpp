// What leaves the server: the streamed answer is the whole one in pieces, with every key that clients look for.
#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "server/openai/completions/chat_format.h"
#include "server/openai/completions/completion_format.h"
#include "server/openai/json.h"

namespace twostroke::openai {
namespace {

std::vector<Json> frames(const std::string& stream) {
  std::vector<Json> parsed;
  size_t begin = 0;
  for (size_t end = 0; (end = stream.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    EXPECT_EQ(stream.substr(begin, 6), "data: ");
    parsed.push_back(Json::parse(stream.substr(begin + 6, end - begin - 6)));
  }
  EXPECT_EQ(begin, stream.size());
  return parsed;
}

const std::vector<Piece>& pieces() {
  static const std::vector<Piece> kPieces = {
      {.choice = 0,
       .text = "Gr\xC3\xBC",
       .entries = {{'G', -0.5F, {{'G', -0.5F}, {'H', -1.F}}, 0}, {'r', -1.F, {{'x', -0.25F}, {'r', -1.F}}, 1}}},
      {.choice = 1, .text = "\"quoted\"\n"},
      {.choice = 0,
       .text = "n",
       .entries = {{'n', -2.F, {{'n', -2.F}, {'m', -3.F}}, 4}},
       .finished = FinishReason::kLength},
      {.choice = 1, .finished = FinishReason::kStop},
  };
  return kPieces;
}

GenerationOptions two_choices(int32_t logprobs) {
  GenerationOptions options;
  options.n = 2;
  options.include_usage = true;
  options.sampling.logprobs = logprobs;
  return options;
}

TEST(ChatFormat, StreamAndWholeAnswerSayTheSame) {
  const ByteTokenizer tokenizer;
  ChatFormat streamed(tokenizer, "m", two_choices(2)), whole(tokenizer, "m", two_choices(2));
  std::string out;
  streamed.begin({}, out);
  for (const Piece& piece : pieces()) {
    streamed.piece(piece, out);
    whole.collect(Piece(piece));
  }
  streamed.usage({3, 4, 0}, out);
  const Json body = Json::parse(whole.body({3, 4, 0}));
  std::vector<std::string> texts(2);
  std::vector<Json> entries(2, Json::array()), finish(2);
  const std::vector<Json> chunks = frames(out);
  for (const Json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    EXPECT_EQ(chunk["id"], chunks[0]["id"]);
    EXPECT_TRUE(chunk.contains("created") && chunk.contains("model") && chunk.contains("usage"));
    for (const Json& choice : chunk["choices"]) {
      const size_t index = choice["index"].get<size_t>();
      texts[index] += choice["delta"].value("content", "");
      if (!choice["logprobs"].is_null()) {
        for (const Json& entry : choice["logprobs"]["content"]) entries[index].push_back(entry);
      }
      if (!choice["finish_reason"].is_null()) finish[index] = choice["finish_reason"];
    }
  }
  EXPECT_TRUE(chunks.back()["choices"].empty());
  EXPECT_EQ(chunks.back()["usage"], body["usage"]);
  for (size_t i = 0; i < 2; ++i) {
    const Json& choice = body["choices"][i];
    EXPECT_EQ(choice["message"]["content"], texts[i]);
    EXPECT_EQ(choice["logprobs"]["content"], entries[i]);
    EXPECT_EQ(choice["finish_reason"], finish[i]);
    EXPECT_TRUE(choice["message"].contains("refusal"));
  }
  EXPECT_EQ(entries[0][0].dump(),
            R"({"token":"G","logprob":-0.5,"bytes":[71],"top_logprobs":[{"token":"G","logprob":-0.5,"bytes":[71]},)"
            R"({"token":"H","logprob":-1.0,"bytes":[72]}]})");
}

TEST(ChatFormat, SendsTheRoleOncePerChoiceAndUsageOnlyWhenAsked) {
  const ByteTokenizer tokenizer;
  GenerationOptions options = two_choices(-1);
  options.include_usage = false;
  ChatFormat format(tokenizer, "m", options);
  std::string out;
  format.begin({}, out);
  for (const Piece& piece : pieces()) format.piece(piece, out);
  size_t roles = 0;
  for (const Json& chunk : frames(out)) {
    EXPECT_FALSE(chunk.contains("usage"));
    EXPECT_TRUE(chunk["choices"][0]["logprobs"].is_null());
    roles += chunk["choices"][0]["delta"].contains("role");
  }
  EXPECT_EQ(roles, 2U);
}

// One choice that thinks, speaks and calls two functions.
std::vector<Piece> calling_pieces(FinishReason reason) {
  return {
      {.reasoning = "hm"},
      {.text = "I look"},
      {.tool_calls = {{.index = 0, .begins = true, .name = "f", .id = "call_1", .arguments = "{\"a\""}}},
      {.tool_calls = {{.index = 0, .arguments = ":1}"}, {.index = 1, .begins = true, .name = "g", .id = "call_2"}}},
      {.tool_calls = {{.index = 1, .arguments = "{}"}}, .finished = reason},
  };
}

TEST(ChatFormat, SendsWhatIsSaidOnceOfACallInADeltaOfItsOwn) {
  const ByteTokenizer tokenizer;
  ChatFormat format(tokenizer, "m", {});
  std::string out;
  for (const Piece& piece : calling_pieces(FinishReason::kStop)) format.piece(piece, out);
  std::vector<std::string> deltas;
  std::vector<Json> reasons;
  for (const Json& chunk : frames(out)) {
    deltas.push_back(chunk["choices"][0]["delta"].dump());
    if (!chunk["choices"][0]["finish_reason"].is_null()) reasons.push_back(chunk["choices"][0]["finish_reason"]);
  }
  EXPECT_EQ(
      deltas,
      (std::vector<std::string>{
          R"({"reasoning_content":"hm"})",
          R"({"content":"I look"})",
          R"({"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]})",
          R"({"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]})",
          R"({"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"g","arguments":""}}]})",
          R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})",
          R"({})",
      }));
  EXPECT_EQ(reasons, std::vector<Json>{"tool_calls"});
}

TEST(ChatFormat, AWholeMessageHoldsTheCallsAndNoContentBesideCallsAlone) {
  const ByteTokenizer tokenizer;
  ChatFormat format(tokenizer, "m", {}), silent(tokenizer, "m", {});
  for (Piece& piece : calling_pieces(FinishReason::kStop)) {
    if (piece.text.empty()) silent.collect(Piece(piece));
    format.collect(std::move(piece));
  }
  const Json choice = Json::parse(format.body({}))["choices"][0];
  EXPECT_EQ(choice["message"].dump(),
            R"({"role":"assistant","content":"I look","refusal":null,"reasoning_content":"hm","tool_calls":[)"
            R"({"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},)"
            R"({"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]})");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(Json::parse(silent.body({}))["choices"][0]["message"]["content"].is_null());
}

TEST(ChatFormat, ACallThatTheLengthCutOffIsNoReasonToCall) {
  const ByteTokenizer tokenizer;
  ChatFormat format(tokenizer, "m", {});
  for (Piece& piece : calling_pieces(FinishReason::kLength)) format.collect(std::move(piece));
  EXPECT_EQ(Json::parse(format.body({}))["choices"][0]["finish_reason"], "length");
}

TEST(ChatFormat, ContinuousUsageIsInEveryChunk) {
  const ByteTokenizer tokenizer;
  GenerationOptions options;
  options.include_usage = options.continuous_usage = true;
  ChatFormat format(tokenizer, "m", options);
  std::string out;
  format.begin({3, 0, 0}, out);
  format.piece({.text = "a", .usage = {3, 1, 0}}, out);
  format.piece({.usage = {3, 2, 0}, .finished = FinishReason::kStop}, out);
  std::vector<int> counts;
  for (const Json& chunk : frames(out)) counts.push_back(chunk["usage"]["completion_tokens"]);
  EXPECT_EQ(counts, (std::vector<int>{0, 1, 2}));
}

TEST(Formats, ReturnTokenIdsOfPromptAndAnswer) {
  const ByteTokenizer tokenizer;
  GenerationOptions options;
  options.return_token_ids = true;
  const PreparedPrompts prompts{.tokens = {{'h', 'i'}}};
  const Piece last{.text = "a", .tokens = {'a', 'b'}, .finished = FinishReason::kStop, .stop_reason = "b"};
  ChatFormat chat(tokenizer, "m", options), chat_stream(tokenizer, "m", options);
  CompletionFormat completion(tokenizer, "m", options, 1), completion_stream(tokenizer, "m", options, 1);
  std::string chat_out, completion_out;
  for (AnswerFormat* format :
       {static_cast<AnswerFormat*>(&chat), static_cast<AnswerFormat*>(&completion),
        static_cast<AnswerFormat*>(&chat_stream), static_cast<AnswerFormat*>(&completion_stream)}) {
    format->prepared(prompts);
  }
  chat.collect(Piece(last));
  completion.collect(Piece(last));
  const Json chat_body = Json::parse(chat.body({})), completion_body = Json::parse(completion.body({}));
  EXPECT_EQ(chat_body["prompt_token_ids"].dump(), "[104,105]");
  EXPECT_EQ(chat_body["choices"][0]["token_ids"].dump(), "[97,98]");
  EXPECT_EQ(chat_body["choices"][0]["stop_reason"], "b");
  EXPECT_EQ(completion_body["choices"][0]["prompt_token_ids"].dump(), "[104,105]");
  EXPECT_EQ(completion_body["choices"][0]["token_ids"].dump(), "[97,98]");
  for (const bool is_chat : {true, false}) {
    AnswerFormat& format = is_chat ? static_cast<AnswerFormat&>(chat_stream) : completion_stream;
    std::string out;
    format.begin({}, out);
    format.piece(last, out);
    const std::vector<Json> chunks = frames(out);
    const Json& head = is_chat ? chunks[0] : chunks[0]["choices"][0];
    EXPECT_EQ(head["prompt_token_ids"].dump(), "[104,105]");
    EXPECT_EQ(chunks[1]["choices"][0]["token_ids"].dump(), "[97,98]");
    EXPECT_EQ(chunks.back()["choices"][0]["stop_reason"], "b");
  }
}

TEST(CompletionFormat, BeginsWithThePromptWhenItEchoes) {
  const ByteTokenizer tokenizer;
  CompletionFormat whole(tokenizer, "m", {}, 1, /*echo=*/true), streamed(tokenizer, "m", {}, 1, /*echo=*/true);
  const PreparedPrompts prompts{.tokens = {{'h', 'i'}}, .texts = {"hi"}};
  whole.prepared(prompts);
  streamed.prepared(prompts);
  const Piece piece{.text = " you", .finished = FinishReason::kLength};
  whole.collect(Piece(piece));
  EXPECT_EQ(Json::parse(whole.body({}))["choices"][0]["text"], "hi you");
  std::string out, text;
  streamed.begin({}, out);
  streamed.piece(piece, out);
  for (const Json& chunk : frames(out)) text += chunk["choices"][0]["text"];
  EXPECT_EQ(text, "hi you");
}

TEST(CompletionFormat, OffsetsCountCharactersAndTheChosenTokenIsAmongTheCandidates) {
  const ByteTokenizer tokenizer;
  CompletionFormat streamed(tokenizer, "m", two_choices(1), 2), whole(tokenizer, "m", two_choices(1), 2);
  std::string out;
  streamed.begin({}, out);
  for (const Piece& piece : pieces()) {
    streamed.piece(piece, out);
    whole.collect(Piece(piece));
  }
  const Json body = Json::parse(whole.body({3, 4, 0}));
  const Json& logprobs = body["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["text_offset"].dump(), "[0,1,3]") << "the two bytes of an umlaut are one character";
  EXPECT_EQ(logprobs["top_logprobs"][1].dump(), R"({"x":-0.25,"r":-1.0})");
  Json offsets = Json::array();
  for (const Json& chunk : frames(out)) {
    const Json& choice = chunk["choices"][0];
    if (choice["index"] == 0) {
      for (const Json& offset : choice["logprobs"]["text_offset"]) offsets.push_back(offset);
    }
  }
  EXPECT_EQ(offsets, logprobs["text_offset"]);
}

std::shared_ptr<const std::vector<TokenScore>> prompt_scores() {
  return std::make_shared<const std::vector<TokenScore>>(
      std::vector<TokenScore>{{.logprob = -2, .rank = 3, .top = {{'x', -0.5F}, {'y', -1.F}}}});
}

TEST(CompletionFormat, TheLogProbabilitiesOfAnEchoBeginWithThoseOfThePrompt) {
  const ByteTokenizer tokenizer;
  GenerationOptions options;
  options.sampling.logprobs = options.prompt_logprobs = 2;
  CompletionFormat whole(tokenizer, "m", options, 1, true), streamed(tokenizer, "m", options, 1, true);
  const std::vector<Piece> all = {
      {.prompt_scores = prompt_scores()},
      {.text = "!", .entries = {{'!', -0.25F, {{'!', -0.25F}}, 0}}, .finished = FinishReason::kLength}};
  std::string out;
  for (CompletionFormat* format : {&whole, &streamed}) format->prepared({.tokens = {{'h', 'i'}}, .texts = {"hi"}});
  streamed.begin({}, out);
  for (const Piece& piece : all) {
    streamed.piece(piece, out);
    whole.collect(Piece(piece));
  }
  const Json choice = Json::parse(whole.body({}))["choices"][0];
  EXPECT_EQ(choice["text"], "hi!");
  EXPECT_EQ(choice["logprobs"].dump(),
            R"({"tokens":["h","i","!"],"token_logprobs":[null,-2.0,-0.25],)"
            R"("top_logprobs":[null,{"x":-0.5,"y":-1.0,"i":-2.0},{"!":-0.25}],"text_offset":[0,1,2]})");
  EXPECT_EQ(choice["prompt_logprobs"].dump(), R"([null,{"105":{"logprob":-2.0,"rank":3,"decoded_token":"i"},)"
                                              R"("120":{"logprob":-0.5,"rank":1,"decoded_token":"x"},)"
                                              R"("121":{"logprob":-1.0,"rank":2,"decoded_token":"y"}}])");
  std::string text;
  Json offsets = Json::array();
  for (const Json& chunk : frames(out)) {
    text += chunk["choices"][0]["text"];
    for (const Json& offset : chunk["choices"][0]["logprobs"]["text_offset"]) offsets.push_back(offset);
  }
  EXPECT_EQ(text, "hi!");
  EXPECT_EQ(offsets, choice["logprobs"]["text_offset"]);
}

TEST(ChatFormat, ShowsTheLogProbabilitiesOfThePrompt) {
  const ByteTokenizer tokenizer;
  GenerationOptions options;
  options.prompt_logprobs = 0;
  ChatFormat format(tokenizer, "m", options);
  format.prepared({.tokens = {{'h', 'i'}}});
  format.collect({.prompt_scores = prompt_scores()});
  const Json body = Json::parse(format.body({}));
  EXPECT_TRUE(body["prompt_logprobs"][0].is_null());
  EXPECT_EQ(body["prompt_logprobs"][1]["105"]["rank"], 3);
}

TEST(Formats, ImpossibleLogProbabilitiesAreStillJson) {
  EXPECT_EQ(logprob_text(-std::numeric_limits<float>::infinity()), "-9999.0");
}

}  // namespace
}  // namespace twostroke::openai
