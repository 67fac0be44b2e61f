#include "server/ops/endpoints.h"

namespace twostroke {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

void add_ops_routes(http::Router& router, const Health& health, Metrics& metrics, std::string version,
                    std::function<void()> before_metrics) {
  const auto live = [&health](Exchange& exchange) -> asio::awaitable<void> {
    const Status status = health.liveness();
    HttpResponse response{.content_type = "text/plain; charset=utf-8", .body = "alive\n"};
    if (!status.ok()) {
      response.status = 503;
      response.body = "restart me: " + status.message() + "\n";
    }
    co_await exchange.respond(std::move(response));
  };
  router.add("GET", "/livez", live, http::RouteAccess::kOpen);
  const auto ready = [&health](Exchange& exchange) -> asio::awaitable<void> {
    const Status status = health.readiness();
    HttpResponse response{.content_type = "text/plain; charset=utf-8", .body = "ready\n"};
    if (!status.ok()) {
      response.status = 503;
      response.body = "not ready: " + status.message() + "\n";
    }
    co_await exchange.respond(std::move(response));
  };
  router.add("GET", "/readyz", ready, http::RouteAccess::kOpen);
  router.add("GET", "/health", ready, http::RouteAccess::kOpen);
  router.add("GET", "/version", [version](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response{.body = "{\"version\":\"" + version + "\"}"};
    co_await exchange.respond(std::move(response));
  });
  router.add("GET", "/metrics", [&metrics, before_metrics](Exchange& exchange) -> asio::awaitable<void> {
    before_metrics();
    HttpResponse response{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.text()};
    co_await exchange.respond(std::move(response));
  });
}

}  // namespace twostroke
