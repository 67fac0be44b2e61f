// GET /openapi.json
#include "server/openai/endpoint.h"
#include "server/openai/openapi/openapi.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

asio::awaitable<void> openapi(Exchange& exchange, Service& service) {
  HttpResponse response;
  response.body = service.openapi;
  co_await exchange.respond(std::move(response));
}

}  // namespace twostroke::openai
