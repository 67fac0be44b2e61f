// What leaves the server: the streamed answer is the whole one in pieces, with every key that clients look for.
#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "server/openai/chat_format.h"
#include "server/openai/completion_format.h"
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

TEST(Formats, ImpossibleLogProbabilitiesAreStillJson) {
  EXPECT_EQ(logprob_text(-std::numeric_limits<float>::infinity()), "-9999.0");
}

}  // namespace
}  // namespace twostroke::openai
