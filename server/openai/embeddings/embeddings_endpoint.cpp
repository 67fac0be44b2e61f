// POST /v1/embeddings
//
// An embedding is the model's hidden state behind its last norm, the mean over all positions or that of the last one as
// `pooling` says, scaled to length 1 as OpenAI's are. The answer names the pooling. An input gets BOS and EOS as the
// model's file asks.
#include <openssl/evp.h>

#include <bit>
#include <charconv>
#include <cmath>

#include "server/openai/cache_salt.h"
#include "server/openai/embeddings/embedding_request.h"
#include "server/openai/embeddings/embedding_run.h"
#include "server/openai/endpoint.h"
#include "server/openai/objectives.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

namespace {

// The inputs in tokens, or why there are none.
using EmbeddingInputs = std::variant<std::vector<std::vector<TokenId>>, ApiError>;

EmbeddingInputs embedding_inputs(const Service& service, const EmbeddingRequest& request) {
  const int32_t context_max = service.engine.backend_info().context_max;
  std::vector<std::vector<TokenId>> prompts;
  size_t tokens = 0;
  for (const auto& input : request.inputs) {
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
      prompts.push_back(*ids);
    } else {
      const std::string& text = std::get<std::string>(input);
      if (auto error = beyond_context(service, text.size())) return *error;
      prompts.push_back(service.tokenizer.encode(text, {.add_special = true, .parse_special = true}));
    }
    if (prompts.back().empty()) return bad_field("input", "'input' holds a text without any token.");
    if (auto error = context_overflow(prompts.back().size(), context_max)) return *error;
    tokens += prompts.back().size();
    if (tokens > kEmbeddingTokensMax) {
      return bad_field("input", "'input' has more than " + std::to_string(kEmbeddingTokensMax) +
                                    " tokens in all: send several requests.");
    }
  }
  return prompts;
}

std::vector<float> normalized(std::span<const float> embedding) {
  double square = 0;
  for (const float x : embedding) square += double{x} * x;
  const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
  std::vector<float> result;
  result.reserve(embedding.size());
  for (const float x : embedding) result.push_back(static_cast<float>(x * scale));
  return result;
}

std::string as_numbers(std::span<const float> embedding) {
  std::string out = "[";
  for (const float x : embedding) {
    std::array<char, 32> digits;
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), x);
    CHECK(error == std::errc(), "a float has at most 16 characters");
    if (out.size() > 1) out += ',';
    out.append(digits.data(), end);
  }
  return out + ']';
}

std::string as_base64(std::span<const float> embedding) {
  static_assert(std::endian::native == std::endian::little, "clients read little-endian floats");
  const auto bytes = std::as_bytes(embedding);
  std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // with the zero that EVP_EncodeBlock writes
  const int length =
      EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  out.resize(static_cast<size_t>(length));
  return '"' + out + '"';
}

std::string embeddings_body(const Service& service, const EmbeddingRequest& request,
                            const std::vector<std::string>& embeddings, size_t tokens) {
  std::string body = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (i > 0) body += ',';
    body += "{\"object\":\"embedding\",\"index\":" + std::to_string(i) + ",\"embedding\":" + embeddings[i] + "}";
  }
  body += "],\"model\":" + json_string(service.model_name);
  body += std::string(",\"pooling\":") + (request.pooling == Pooling::kLast ? "\"last\"" : "\"mean\"");
  body += ",\"usage\":{\"prompt_tokens\":" + std::to_string(tokens) + ",\"total_tokens\":" + std::to_string(tokens);
  return body + "}}";
}

// What the model cannot do for this request.
std::optional<ApiError> check_embedding(const Service& service, const EmbeddingRequest& request) {
  if (auto error = check_model(service, request.model)) return error;
  const int32_t size = service.engine.backend_info().embedding_size;
  if (size == 0) return ApiError{.message = "This server's backend gives no embeddings.", .code = "unsupported"};
  if (request.dimensions && *request.dimensions != size) {
    return bad_field("dimensions", "'dimensions' must be " + std::to_string(size) +
                                       ", the size of this model's embeddings, or left out: it was not trained to be "
                                       "shortened.");
  }
  return std::nullopt;
}

}  // namespace

asio::awaitable<void> embeddings(Exchange& exchange, Service& service) {
  Parsed<EmbeddingRequest> parsed = co_await read_request<EmbeddingRequest>(exchange, service, parse_embedding_request);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  if (const auto error = refuse_header_objectives(exchange.request())) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  // Shared with the text thread, which may outlive this coroutine when the server stops.
  const auto request = std::make_shared<const EmbeddingRequest>(std::get<EmbeddingRequest>(std::move(parsed)));
  if (const auto error = check_embedding(service, *request)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  std::function<EmbeddingInputs()> prepare = [&service, request] { return embedding_inputs(service, *request); };
  EmbeddingInputs prepared = co_await on_text_thread(service, std::move(prepare));
  if (const auto* error = std::get_if<ApiError>(&prepared)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  if (exchange.disconnected()) co_return;

  const auto& inputs = std::get<0>(prepared);
  size_t tokens = 0;
  for (const auto& input : inputs) tokens += input.size();
  std::vector<std::string> texts(inputs.size());
  const EmbeddingRun::Sink sink = [&](size_t input, std::span<const float> embedding) {
    const std::vector<float> unit = normalized(embedding);
    texts[input] = request->base64 ? as_base64(unit) : as_numbers(unit);
  };
  EmbeddingRun run(service, exchange.executor(), request->pooling,
                   cache_salt(tenant_salt(exchange), request->cache_salt),
                   Tenants::id_of(tenant_salt(exchange), request->user), call_name(exchange, ""));
  exchange.on_disconnect([&run] { run.abandon(); });
  const std::optional<ApiError> error = co_await run.run(inputs, sink);
  exchange.on_disconnect(nullptr);
  if (run.abandoned()) co_return;
  if (error) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  HttpResponse response;
  response.body = embeddings_body(service, *request, texts, tokens);
  co_await exchange.respond(std::move(response));
}

}  // namespace twostroke::openai
