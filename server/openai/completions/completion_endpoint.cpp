// POST /v1/completions
#include <memory>

#include "server/openai/completions/completion_format.h"
#include "server/openai/endpoint.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

asio::awaitable<void> completions(Exchange& exchange, Service& service) {
  Parsed<CompletionRequest> parsed =
      co_await read_request<CompletionRequest>(exchange, service, parse_completion_request);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  const auto request = std::make_shared<const CompletionRequest>(std::get<CompletionRequest>(std::move(parsed)));
  if (const auto error = check_model(service, request->model)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  CompletionFormat format(service.tokenizer, service.model_name, request->options,
                          request->prompts.size() * request->options.n, request->echo);
  std::function<Prompts()> prepare = [&service, request] { return prepare_completion(service, *request); };
  co_await generate(exchange, service, request->options, std::move(prepare), kCompletionTokensDefault, format);
}

}  // namespace twostroke::openai
