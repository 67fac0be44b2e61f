// GET /v1/models and GET /v1/models/{id}
#include "server/openai/endpoint.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

namespace {

Json model_entry(const Service& service) {
  return {{"id", service.model_name},   {"object", "model"},
          {"created", service.created}, {"owned_by", "twostroke"},
          {"parent", nullptr},          {"max_model_len", service.engine.backend_info().context_max}};
}

}  // namespace

asio::awaitable<void> list_models(Exchange& exchange, Service& service) {
  HttpResponse response;
  response.body = to_text({{"object", "list"}, {"data", Json::array({model_entry(service)})}});
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> get_model(Exchange& exchange, Service& service) {
  if (const auto error = check_model(service, exchange.request().path_args.at(0))) {
    HttpResponse response = error_response(*error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  HttpResponse response;
  response.body = to_text(model_entry(service));
  co_await exchange.respond(std::move(response));
}

}  // namespace twostroke::openai
