// POST /v1/chat/completions
#include <memory>

#include "server/openai/completions/chat_format.h"
#include "server/openai/endpoint.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

asio::awaitable<void> chat_completions(Exchange& exchange, Service& service) {
  Parsed<ChatRequest> parsed = co_await read_request<ChatRequest>(exchange, service, parse_chat_request);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  // Shared with the text thread, which may outlive this coroutine when the server stops.
  const auto request = std::make_shared<const ChatRequest>(std::get<ChatRequest>(std::move(parsed)));
  if (const auto error = check_model(service, request->model)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  const Json& last = request->messages.back();
  const bool echoes = request->echo && last["role"] == "assistant" && last["content"].is_string();
  ChatFormat format(service.tokenizer, service.model_name, request->options,
                    echoes ? last["content"].get<std::string>() : "");
  std::function<Prompts()> prepare = [&service, request] { return prepare_chat(service, *request); };
  const auto context_max = static_cast<uint32_t>(service.engine.backend_info().context_max);
  co_await generate(exchange, service, request->options, std::move(prepare), context_max, format);
}

}  // namespace twostroke::openai
