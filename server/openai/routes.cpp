#include "server/openai/endpoint.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

void add_routes(http::Router& router, const ServiceSlot& slot) {
  using Endpoint = asio::awaitable<void> (*)(Exchange&, Service&);
  const auto add = [&](const char* method, const char* path, Endpoint endpoint) {
    router.add(method, path, [&slot, endpoint](Exchange& exchange) -> asio::awaitable<void> {
      if (Service* service = slot.get()) {
        co_await endpoint(exchange, *service);
        co_return;
      }
      HttpResponse response = error_response(to_api_error(unavailable("The model is loading: try again in a moment.")));
      co_await exchange.respond(std::move(response));
    });
  };
  add("POST", "/v1/chat/completions", chat_completions);
  add("POST", "/v1/completions", completions);
  add("POST", "/v1/responses", create_response);
  add("GET", "/v1/responses/{id}", get_response);
  add("DELETE", "/v1/responses/{id}", delete_response);
  add("POST", "/v1/responses/{id}/cancel", cancel_response);
  add("GET", "/v1/responses/{id}/input_items", list_response_input);
  add("POST", "/v1/messages", anthropic_messages);
  add("POST", "/v1/messages/count_tokens", anthropic_count_tokens);
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
