#include "server/openai/endpoint.h"

#include "server/openai/cache_salt.h"
#include "server/openai/objectives.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

asio::awaitable<void> refuse(Exchange& exchange, const Service& service, const ApiError& error, HttpResponse response) {
  service.on_refusal(error.status, refusal_reason(error));
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> refuse(Exchange& exchange, const Service& service, const ApiError& error) {
  HttpResponse response = error_response(error);
  co_await refuse(exchange, service, error, std::move(response));
}

std::optional<ApiError> check_model(const Service& service, const std::string& model) {
  if (model.empty() || model == service.model_name) return std::nullopt;
  return ApiError{.status = 404,
                  .message = "The model '" + model.substr(0, 200) + "' does not exist here: this server has '" +
                             service.model_name + "'.",
                  .param = "model",
                  .code = "model_not_found"};
}

CallName call_name(const Exchange& exchange, const std::string& id) {
  return {.id = id, .request_id = exchange.request().id, .endpoint = exchange.request().path};
}

asio::awaitable<void> generate(Exchange& exchange, Service& service, const GenerationOptions& given,
                               std::function<Prompts()> prepare, uint32_t max_tokens_default, AnswerFormat& format) {
  GenerationOptions options = given;
  if (const auto error = add_header_objectives(exchange.request(), options.objectives)) {
    HttpResponse response = format.error_response(*error);
    co_await refuse(exchange, service, *error, std::move(response));
    co_return;
  }
  Prompts prompts = co_await on_text_thread(service, std::move(prepare));
  if (const auto* error = std::get_if<ApiError>(&prompts)) {
    HttpResponse response = format.error_response(*error);
    co_await refuse(exchange, service, *error, std::move(response));
    co_return;
  }
  if (exchange.disconnected()) co_return;
  format.prepared(std::get<PreparedPrompts>(prompts));
  Generation generation(service, exchange.executor(), options, tenant_salt(exchange));
  if (const auto error = generation.start(std::get<PreparedPrompts>(std::move(prompts)), max_tokens_default,
                                          call_name(exchange, format.id()))) {
    HttpResponse response = format.error_response(*error);
    co_await refuse(exchange, service, *error, std::move(response));
    co_return;
  }
  co_await answer(exchange, service, generation, format, options);
}

}  // namespace twostroke::openai
