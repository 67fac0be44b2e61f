// Connection: reads requests from one client and has them answered, one after another.
//
// The life of a connection: idle -> a request's header -> its body -> the handler answers -> idle, and so on until the
// client leaves, a deadline passes, an answer ends it, or the server drains or stops.
//
// Thread-safety: start, drain, leave and stop from any thread; the rest happens on the strand of the socket. Owned by
// its own coroutine; the ConnectionSet knows it until it ends.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "server/http/connection_set.h"
#include "server/http/request_parser.h"
#include "server/http/transport.h"

namespace twostroke::http {

class BodyShare;
class ConnectionExchange;
struct ServerState;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // After an answer that does not wait for the whole request, what the client still sends is dropped for so long.
  static constexpr std::chrono::milliseconds kLinger{1000};

  Connection(std::shared_ptr<ServerState> state, boost::asio::ip::tcp::socket socket);
  ~Connection();

  // Joins the server's connections and runs, unless there are too many.
  void start();
  void drain();  // ends between two requests
  void leave();  // likewise: others need the room
  void stop();   // ends now

 private:
  enum class ReadOutcome { kComplete, kRejected, kTimedOut, kClosed, kNotAdmitted, kNoRoom };

  boost::asio::awaitable<void> run(Admission admission);
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<bool> wait_for_request();
  boost::asio::awaitable<ReadOutcome> read_request(RequestParser& parser, BodyShare& share);
  boost::asio::awaitable<bool> answer(HttpRequest request, bool keep_alive, bool http_1_0);
  boost::asio::awaitable<void> respond_error(ConnectionExchange& exchange, const HttpError& error);
  boost::asio::awaitable<void> refuse(HttpError error, const HttpRequest& head);
  bool admits(const HttpRequest& request) const;
  void parse_unread(RequestParser& parser);

  const std::shared_ptr<ServerState> state_;
  const std::string remote_;
  const std::shared_ptr<Transport> transport_;
  bool idle_ = false;     // between two requests
  bool leaving_ = false;  // after the answer in progress
  Transport::Clock::time_point request_begin_ = Transport::Clock::now();
};

}  // namespace twostroke::http
