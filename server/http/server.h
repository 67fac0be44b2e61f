// HttpServer: listener, connections and limits, on Boost.Beast and C++20 coroutines.
//
// HTTP/1.1 with keep-alive, bounded pipelining, chunked request bodies and Expect: 100-continue. What goes wrong below
// the handlers is answered here, in the shape that OpenAI clients read ({"error":{"message","type","param","code"}}):
//   400 malformed (a bad chunk size; Content-Length together with Transfer-Encoding)   404 no such path   405 wrong
//   method, with Allow   408 the request did not arrive within its deadline   413 body too large   431 header too large
//   503 too many connections, or refusing(): with Retry-After
//
// Thread-safety: construct, listen, begin_drain and stop from any thread; handlers run on the io_context's threads,
// each connection on a strand of its own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/status.h"
#include "server/http/exchange.h"

namespace twostroke::http {

struct HttpLimits {
  size_t connections_max = 4096;
  size_t header_bytes_max = 32 * 1024;
  size_t header_count_max = 128;
  size_t body_bytes_max = 32 * 1024 * 1024;
  size_t pipelined_bytes_max = 64 * 1024;            // read ahead while an answer is being made; then reading pauses
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between requests on a kept-alive connection
  std::chrono::milliseconds write_timeout{60'000};  // a client that does not read for so long is gone
};

// Which handler answers which request. Patterns are literal but for {name} segments, whose text lands in path_args.
// Build it before the server starts; immutable afterwards.
class Router {
 public:
  void add(std::string method, std::string pattern, Handler handler);

  struct Match {
    const Handler* handler = nullptr;  // nullptr: see allow
    std::vector<std::string> path_args;
    std::string allow;  // methods of the path when only the method is wrong; "" when the path is unknown
  };
  Match match(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    Handler handler;
  };
  std::vector<Route> routes_;
};

// One line per finished exchange, for logs and metrics. `route` is the pattern, never the raw path.
struct AccessRecord {
  std::string method, route, remote, request_id;
  int status = 0;
  double seconds = 0;
  bool disconnected = false;
};

class HttpServer {
 public:
  HttpServer(boost::asio::io_context& io, const HttpLimits& limits, Router router,
             std::function<void(const AccessRecord&)> on_access);
  ~HttpServer();

  // Binds and starts accepting. `port` 0 picks a free one. Errors name the address and say what to do.
  Status listen(const std::string& host, uint16_t port);
  uint16_t port() const;  // the bound port, after listen()

  // Stops accepting and closes connections that are between requests; the others close after the answer in progress.
  void begin_drain();
  size_t connections() const;  // open now
  size_t exchanges() const;    // requests being answered now
  // Closes everything at once.
  void stop();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace twostroke::http
