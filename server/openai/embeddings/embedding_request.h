// EmbeddingRequest: the body of POST /v1/embeddings, checked.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/step.h"
#include "kernels/token.h"
#include "server/openai/field_reader.h"

namespace twostroke::openai {

constexpr size_t kEmbeddingInputsMax = 2048;
constexpr size_t kEmbeddingTokensMax = 300'000;  // of all inputs together, as OpenAI's service has it

struct EmbeddingRequest {
  std::string model;  // "" when the client named none
  // Each is text or token ids, as the client sent it.
  std::vector<std::variant<std::string, std::vector<TokenId>>> inputs;
  Pooling pooling = Pooling::kMean;
  bool base64 = false;  // little-endian 32-bit floats in base64; otherwise an array of numbers
  std::optional<int64_t> dimensions;
  std::string cache_salt;
  std::string user;
};

std::variant<EmbeddingRequest, ApiError> parse_embedding_request(const Json& body, int32_t vocab_size);

}  // namespace twostroke::openai
