#include "server/openai/anthropic/anthropic_format.h"
#include "server/openai/endpoint.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

namespace {

using ErrorWriter = HttpResponse (*)(const ApiError& error, const std::string& request_id);

HttpResponse openai_error_response(const ApiError& error, const std::string& /*request_id*/) {
  return error_response(error);
}

// What the HTTP server says for paths of Anthropic's protocol.
HttpResponse anthropic_http_error(const http::HttpError& error, const std::string& request_id) {
  HttpResponse response = anthropic_error_response({.status = error.status, .message = error.message}, request_id);
  response.headers.insert(response.headers.end(), error.headers.begin(), error.headers.end());
  return response;
}

}  // namespace

void add_routes(http::Router& router, const ServiceSlot& slot) {
  using Endpoint = asio::awaitable<void> (*)(Exchange&, Service&);
  const auto add = [&](const char* method, const char* path, Endpoint endpoint,
                       ErrorWriter write_error = openai_error_response) {
    router.add(method, path, [&slot, endpoint, write_error](Exchange& exchange) -> asio::awaitable<void> {
      if (Service* service = slot.get()) {
        co_await endpoint(exchange, *service);
        co_return;
      }
      const ApiError loading = to_api_error(unavailable("The model is loading: try again in a moment."));
      HttpResponse response = write_error(loading, exchange.request().id);
      co_await exchange.respond(std::move(response));
    });
  };
  router.shape_errors("/v1/messages", anthropic_http_error);
  add("POST", "/v1/chat/completions", chat_completions);
  add("POST", "/v1/completions", completions);
  add("POST", "/v1/responses", create_response);
  add("GET", "/v1/responses/{id}", get_response);
  add("DELETE", "/v1/responses/{id}", delete_response);
  add("POST", "/v1/responses/{id}/cancel", cancel_response);
  add("GET", "/v1/responses/{id}/input_items", list_response_input);
  add("POST", "/v1/messages", anthropic_messages, anthropic_error_response);
  add("POST", "/v1/messages/count_tokens", anthropic_count_tokens, anthropic_error_response);
  add("POST", "/v1/chat/completions/render", render_chat_completion);
  add("POST", "/v1/completions/render", render_completion);
  add("POST", "/v1/embeddings", embeddings);
  add("POST", "/tokenize", tokenize);
  add("POST", "/detokenize", detokenize);
  add("GET", "/openapi.json", openapi);
  add("GET", "/debug/requests", debug_requests);
  add("GET", "/debug/requests/{id}", debug_request);
  add("GET", "/debug/steps", debug_steps);
  add("GET", "/v1/models", list_models);
  add("GET", "/v1/models/{model...}", get_model);
}

}  // namespace twostroke::openai
