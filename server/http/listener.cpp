#include "server/http/listener.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <utility>

#include "server/http/connection.h"
#include "server/http/server_state.h"

namespace twostroke::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kAwaitTuple = asio::as_tuple(asio::use_awaitable);

std::string describe(const std::string& host, uint16_t port, const error_code& ec) {
  std::string text = "cannot listen on " + host + " port " + std::to_string(port) + ": " + ec.message();
  if (ec == asio::error::address_in_use) {
    text += "; another program listens there: stop it or choose another port";
  } else if (ec == asio::error::access_denied) {
    text += "; ports below 1024 need privileges: choose a higher one";
  } else if (ec == boost::system::errc::address_not_available) {
    text += "; use an address of this machine, 127.0.0.1 for itself only or 0.0.0.0 for all networks";
  }
  return text;
}

}  // namespace

Listener::Listener(asio::io_context& io, std::shared_ptr<ServerState> state)
    : io_(io), state_(std::move(state)), strand_(asio::make_strand(io)), acceptor_(strand_), backoff_(strand_) {}

Status Listener::open(const std::string& host, uint16_t port) {
  tcp::resolver resolver(io_);
  error_code ec;
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) {
    return invalid_argument("cannot listen on \"" + host + "\": " + ec.message() +
                            "; give an address of this machine, such as 127.0.0.1");
  }
  Status status;
  for (const auto& entry : found) {
    status = bind_to(entry.endpoint());
    if (status.ok()) return status;
  }
  return status;
}

Status Listener::bind_to(const tcp::endpoint& endpoint) {
  error_code ec;
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor_.bind(endpoint, ec);
  if (!ec) acceptor_.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) port_ = acceptor_.local_endpoint(ec).port();
  if (!ec) return {};
  error_code ignored;
  acceptor_.close(ignored);
  return unavailable(describe(endpoint.address().to_string(), endpoint.port(), ec));
}

void Listener::start() {
  asio::co_spawn(strand_, accept_loop(), [self = shared_from_this()](std::exception_ptr) {});
}

void Listener::close() {
  asio::dispatch(strand_, [self = shared_from_this()] {
    error_code ignored;
    self->acceptor_.close(ignored);
    self->backoff_.cancel();
  });
}

asio::awaitable<void> Listener::accept_loop() {
  const auto self = shared_from_this();
  while (acceptor_.is_open()) {
    const asio::any_io_executor strand = asio::make_strand(io_);
    tcp::socket socket(strand);
    const auto [ec] = co_await acceptor_.async_accept(socket, kAwaitTuple);
    if (!ec) {
      std::make_shared<Connection>(state_, std::move(socket))->start();
    } else if (acceptor_.is_open() && ec != asio::error::connection_aborted) {
      backoff_.expires_after(kBackoff);
      co_await backoff_.async_wait(kAwaitTuple);
    }
  }
}

}  // namespace twostroke::http
