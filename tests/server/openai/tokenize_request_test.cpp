// The bodies of /tokenize and /detokenize, and the lists of tokens in them.
#include "server/openai/tokenize_request.h"

#include <gtest/gtest.h>

#include "byte_tokenizer.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {
namespace {

constexpr int32_t kVocabularySize = 1000;

TokenizeRequest tokenize_request(const std::string& body) {
  auto parsed = parse_tokenize_request(Json::parse(body), kVocabularySize);
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << body << ": " << (error == nullptr ? "" : error->message);
  return error == nullptr ? std::get<TokenizeRequest>(std::move(parsed)) : TokenizeRequest{};
}

// The field that the refusal names; "" when the request is accepted.
template <typename Request>
std::string refused(std::variant<Request, ApiError> (*parse)(const Json&, int32_t), const std::string& body) {
  const auto parsed = parse(Json::parse(body), kVocabularySize);
  const auto* error = std::get_if<ApiError>(&parsed);
  return error == nullptr ? "" : error->param.value_or("?");
}

TEST(TokenizeRequest, ReadsTextWithItsDefaults) {
  const TokenizeRequest request = tokenize_request(R"({"prompt": "hi", "model": "m"})");
  EXPECT_EQ(std::get<std::string>(request.input), "hi");
  EXPECT_EQ(request.model, "m");
  EXPECT_TRUE(request.add_special_tokens);
  EXPECT_FALSE(request.return_token_strs);
  EXPECT_EQ(std::get<std::string>(tokenize_request(R"({"prompt": ""})").input), "");
  EXPECT_FALSE(tokenize_request(R"({"prompt": "", "add_special_tokens": false})").add_special_tokens);
}

TEST(TokenizeRequest, ReadsMessagesAsAChatDoes) {
  const TokenizeRequest request =
      tokenize_request(R"({"messages": [{"role": "user", "content": "hi"}], "return_token_strs": true})");
  EXPECT_EQ(std::get<ChatRequest>(request.input).messages[0]["content"], "hi");
  EXPECT_TRUE(request.return_token_strs);
}

TEST(TokenizeRequest, NamesWhatIsWrong) {
  const auto field = [](const std::string& body) { return refused(parse_tokenize_request, body); };
  EXPECT_EQ(field("{}"), "prompt");
  EXPECT_EQ(field(R"({"prompt": null})"), "prompt");
  EXPECT_EQ(field(R"({"prompt": ["a"]})"), "prompt");
  EXPECT_EQ(field(R"({"prompt": "a", "messages": [{"role": "user", "content": "hi"}]})"), "prompt");
  EXPECT_EQ(field(R"({"messages": []})"), "messages");
  EXPECT_EQ(field(R"({"messages": [{"role": "user", "content": "hi"}], "add_special_tokens": true})"),
            "add_special_tokens");
  EXPECT_EQ(field(R"({"prompt": "a", "add_special_tokens": 1})"), "add_special_tokens");
  EXPECT_EQ(field(R"({"prompt": "a", "return_token_strs": "yes"})"), "return_token_strs");
  EXPECT_EQ(field(R"({"prompt": ")" + std::string(kTokenizeBytesMax, 'a') + R"("})"), "");
  EXPECT_EQ(field(R"({"prompt": ")" + std::string(kTokenizeBytesMax + 1, 'a') + R"("})"), "prompt");
}

TEST(DetokenizeRequest, TakesTokensOfTheVocabularyOnly) {
  const auto field = [](const std::string& body) { return refused(parse_detokenize_request, body); };
  EXPECT_EQ(field(R"({"tokens": []})"), "");
  EXPECT_EQ(field(R"({"tokens": [0, 999]})"), "");
  for (const char* tokens :
       {"null", "[1000]", "[-1]", "[1.5]", "[18446744073709551615]", "[\"a\"]", "[[1]]", "\"a\"", "{}", "7"}) {
    EXPECT_EQ(field(R"({"tokens": )" + std::string(tokens) + "}"), "tokens") << tokens;
  }
  EXPECT_EQ(field("{}"), "tokens");
  std::string many = "[0";
  for (size_t i = 0; i < kDetokenizeTokensMax; ++i) many += ",0";
  EXPECT_EQ(field("{\"tokens\": " + many + "]}"), "tokens");
}

TEST(TokenList, IsWrittenAsJsonAndAsText) {
  const std::vector<TokenId> tokens = {ByteTokenizer::kBos, 'h', 'i', 0xc3, 0xa4, 0xff};
  EXPECT_EQ(token_list_json(tokens), "[256,104,105,195,164,255]");
  EXPECT_EQ(token_list_json({}), "[]");
  EXPECT_EQ(text_of_tokens(ByteTokenizer(), tokens), "<bos>hi\xc3\xa4\xef\xbf\xbd");
}

}  // namespace
}  // namespace twostroke::openai
