// Listener: accepts connections on one address and hands each to a Connection of its own.
//
// An accept that fails (no descriptors left, no memory) is tried again after kBackoff, so the server neither spins nor
// ends; what is queued in the kernel waits meanwhile.
//
// Thread-safety: open() before all else, then start() and close() from any thread; the rest happens on its strand.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/status.h"

namespace twostroke::http {

struct ServerState;

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  static constexpr std::chrono::milliseconds kBackoff{100};

  Listener(boost::asio::io_context& io, std::shared_ptr<ServerState> state);

  // Binds the first address of `host` (a name or a number) that can be bound.
  Status open(const std::string& host, uint16_t port);
  uint16_t port() const { return port_; }
  void start();
  void close();

 private:
  Status bind_to(const boost::asio::ip::tcp::endpoint& endpoint);
  boost::asio::awaitable<void> accept_loop();

  boost::asio::io_context& io_;
  const std::shared_ptr<ServerState> state_;
  boost::asio::any_io_executor strand_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer backoff_;
  uint16_t port_ = 0;
};

}  // namespace twostroke::http
