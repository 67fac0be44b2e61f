// The body of /v1/embeddings.
#include "server/openai/embeddings/embedding_request.h"

#include <gtest/gtest.h>

namespace twostroke::openai {
namespace {

constexpr int32_t kWords = 1000;  // the vocabulary's size

EmbeddingRequest embedding_request(const std::string& body) {
  auto parsed = parse_embedding_request(Json::parse(body), kWords);
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << body << ": " << (error == nullptr ? "" : error->message);
  return error == nullptr ? std::get<EmbeddingRequest>(std::move(parsed)) : EmbeddingRequest{};
}

// The field that the refusal names; "" when the request is accepted.
std::string refused_embedding(const std::string& body) {
  const auto parsed = parse_embedding_request(Json::parse(body), kWords);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->param.value_or("?");
}

TEST(EmbeddingRequest, ReadsEachShapeOfInput) {
  using Tokens = std::vector<TokenId>;
  EXPECT_EQ(std::get<std::string>(embedding_request(R"({"input": "a"})").inputs.at(0)), "a");
  EXPECT_EQ(std::get<std::string>(embedding_request(R"({"input": ["a", "b"]})").inputs.at(1)), "b");
  EXPECT_EQ(std::get<Tokens>(embedding_request(R"({"input": [1, 2]})").inputs.at(0)), (Tokens{1, 2}));
  EXPECT_EQ(std::get<Tokens>(embedding_request(R"({"input": [[1], [2, 3]]})").inputs.at(1)), (Tokens{2, 3}));
}

TEST(EmbeddingRequest, HasTheDefaultsThatItSays) {
  const EmbeddingRequest request = embedding_request(R"({"input": "a", "user": "u", "dimensions": null})");
  EXPECT_EQ(request.pooling, Pooling::kMean);
  EXPECT_FALSE(request.base64);
  EXPECT_FALSE(request.dimensions.has_value());
  EXPECT_EQ(request.cache_salt, "");
  const EmbeddingRequest other = embedding_request(
      R"({"input": "a", "pooling": "last", "encoding_format": "base64", "dimensions": 64, "cache_salt": "s"})");
  EXPECT_EQ(other.pooling, Pooling::kLast);
  EXPECT_TRUE(other.base64);
  EXPECT_EQ(other.dimensions, 64);
  EXPECT_EQ(other.cache_salt, "s");
}

TEST(EmbeddingRequest, NamesWhatIsWrong) {
  for (const char* input : {"null", "[]", "\"\"", "[\"\"]", "[\"a\", \"\"]", "[[]]", "[-1]", "[1000]", "[1.5]",
                            "[1, \"a\"]", "[\"a\", 1]", "[[1], [1000]]", "[null]", "{}", "7", "true", "[[[1]]]"}) {
    EXPECT_EQ(refused_embedding(R"({"input": )" + std::string(input) + "}"), "input") << input;
  }
  EXPECT_EQ(refused_embedding("{}"), "input");
  for (const char* more : {R"("encoding_format": "int8")", R"("encoding_format": 1)", R"("pooling": "max")",
                           R"("dimensions": 0)", R"("dimensions": "64")", R"("user": 5)", R"("cache_salt": 5)",
                           R"("normalize": false)", R"("add_special_tokens": false)", R"("truncate_prompt_tokens": 5)",
                           R"("messages": [])", R"("priority": 1)", R"("slo": {"ttft_ms": 5})"}) {
    const std::string name = std::string(more).substr(1, std::string(more).find('"', 1) - 1);
    EXPECT_EQ(refused_embedding(R"({"input": "a", )" + std::string(more) + "}"), name);
  }
}

TEST(EmbeddingRequest, TakesTwoThousandInputsAndNoMore) {
  std::string inputs = "\"a\"";
  for (size_t i = 1; i < kEmbeddingInputsMax; ++i) inputs += ",\"a\"";
  EXPECT_EQ(embedding_request(R"({"input": [)" + inputs + "]}").inputs.size(), kEmbeddingInputsMax);
  EXPECT_EQ(refused_embedding(R"({"input": [)" + inputs + ",\"a\"]}"), "input");
}

}  // namespace
}  // namespace twostroke::openai
