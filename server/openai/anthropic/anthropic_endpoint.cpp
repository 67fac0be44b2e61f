// POST /v1/messages and POST /v1/messages/count_tokens, Anthropic's protocol.
#include <memory>

#include "server/openai/anthropic/anthropic_format.h"
#include "server/openai/anthropic/anthropic_request.h"
#include "server/openai/endpoint.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

namespace {

Prompts prepare_message(const Service& service, const AnthropicRequest& request) {
  Prompts prompts = prepare_chat(service, request.chat);
  if (auto* error = std::get_if<ApiError>(&prompts)) return in_client_words(request.names, std::move(*error));
  return prompts;
}

using AnthropicParser = Parsed<AnthropicRequest> (*)(const Json& body, int32_t vocab_size);

// The checked request, or nullptr when it has been refused.
asio::awaitable<std::shared_ptr<const AnthropicRequest>> read_anthropic_request(Exchange& exchange, Service& service,
                                                                                AnthropicParser parser) {
  Parsed<AnthropicRequest> parsed = co_await read_request<AnthropicRequest>(exchange, service, parser);
  std::optional<ApiError> error;
  if (auto* found = std::get_if<ApiError>(&parsed)) {
    error = std::move(*found);
  } else {
    error = check_model(service, std::get<AnthropicRequest>(parsed).model);
  }
  if (error) {
    HttpResponse response = anthropic_error_response(*error, exchange.request().id);
    co_await refuse(exchange, service, *error, std::move(response));
    co_return nullptr;
  }
  co_return std::make_shared<const AnthropicRequest>(std::get<AnthropicRequest>(std::move(parsed)));
}

}  // namespace

asio::awaitable<void> anthropic_messages(Exchange& exchange, Service& service) {
  // Shared with the text thread, which may outlive this coroutine when the server stops.
  const auto request = co_await read_anthropic_request(exchange, service, parse_anthropic_request);
  if (!request) co_return;
  AnthropicFormat format(service.model_name, request->shows_thinking, exchange.request().id);
  std::function<Prompts()> prepare = [&service, request] { return prepare_message(service, *request); };
  const auto context_max = static_cast<uint32_t>(service.engine.backend_info().context_max);
  co_await generate(exchange, service, request->chat.options, std::move(prepare), context_max, format);
}

asio::awaitable<void> anthropic_count_tokens(Exchange& exchange, Service& service) {
  const auto request = co_await read_anthropic_request(exchange, service, parse_count_tokens_request);
  if (!request) co_return;
  std::function<Prompts()> prepare = [&service, request] { return prepare_message(service, *request); };
  const Prompts prompts = co_await on_text_thread(service, std::move(prepare));
  HttpResponse response;
  if (const auto* error = std::get_if<ApiError>(&prompts)) {
    response = anthropic_error_response(*error, exchange.request().id);
  } else {
    response.body =
        "{\"input_tokens\":" + std::to_string(std::get<PreparedPrompts>(prompts).tokens.front().size()) + "}";
    response.headers.emplace_back("request-id", exchange.request().id);
  }
  co_await exchange.respond(std::move(response));
}

}  // namespace twostroke::openai
