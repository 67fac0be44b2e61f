#include "server/http/server.h"

#include <utility>

#include "kernels/check.h"
#include "server/http/listener.h"
#include "server/http/server_state.h"

namespace twostroke::http {

struct HttpServer::Impl {
  std::shared_ptr<ServerState> state;
  std::shared_ptr<Listener> listener;
};

HttpServer::HttpServer(boost::asio::io_context& io, const HttpLimits& limits, Router router,
                       std::function<void(const AccessRecord&)> on_access, AccessPolicy access)
    : impl_(std::make_shared<Impl>()) {
  impl_->state = std::make_shared<ServerState>(limits, std::move(router), std::move(on_access), std::move(access));
  impl_->listener = std::make_shared<Listener>(io, impl_->state);
}

HttpServer::~HttpServer() { stop(); }

Status HttpServer::listen(const std::string& host, uint16_t port) {
  CHECK(impl_->listener->port() == 0, "a server listens once");
  Status status = impl_->listener->open(host, port);
  if (status.ok()) impl_->listener->start();
  return status;
}

uint16_t HttpServer::port() const { return impl_->listener->port(); }

void HttpServer::begin_drain() {
  impl_->listener->close();
  impl_->state->connections.drain();
}

size_t HttpServer::connections() const { return impl_->state->connections.served(); }
size_t HttpServer::exchanges() const { return impl_->state->exchanges.load(); }

void HttpServer::stop() {
  impl_->listener->close();
  impl_->state->connections.stop();
}

}  // namespace twostroke::http
