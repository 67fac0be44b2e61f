// HttpServer: listener, connections and limits, on Boost.Beast and C++20 coroutines.
//
// HTTP/1.1 with keep-alive, bounded pipelining, chunked request bodies and Expect: 100-continue. What goes wrong below
// the handlers is answered here, in the shape that OpenAI clients read ({"error":{"message","type","param","code"}}):
//   400 malformed (a bad chunk size; Content-Length together with Transfer-Encoding)   401 no valid API key, where one
//   is needed, before the body is read   404 no such path   405 wrong method, with Allow   408 the request did not
//   arrive within its deadline   413 body too large   431 header too large 417 an expectation other than 100-continue
//   500 the handler failed   501 a transfer coding other than chunked 503 too many connections, or bytes of bodies in
//   all: with Retry-After   505 not HTTP/1.0 or 1.1
//
// Thread-safety: construct, listen, begin_drain and stop from any thread; handlers run on the io_context's threads,
// each connection on a strand of its own.
//
// Ownership: connections share what they need, so an HttpServer may be destroyed (which stops it) while they are open
// and while the io_context runs; handlers then end on the io_context as after stop(). What handlers refer to must live
// until exchanges() is 0 or the io_context has been destroyed. Destroy the HttpServer before its io_context.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/status.h"
#include "server/http/access.h"
#include "server/http/error_body.h"
#include "server/http/exchange.h"

namespace twostroke::http {

struct HttpLimits {
  size_t connections_max = 4096;
  std::chrono::milliseconds idle_grace{1'000};  // idle for longer: makes room for a newcomer when there are so many
  size_t header_bytes_max = 32 * 1024;
  size_t header_count_max = 128;
  size_t body_bytes_max = 32 * 1024 * 1024;          // of a method that has use for a body; 64 KiB of others
  size_t bodies_bytes_max = size_t{1} << 30;         // of all requests together, from arrival to the end of the answer
  size_t pipelined_bytes_max = 64 * 1024;            // read ahead while an answer is being made; then reading pauses
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte of a request to the end of its header
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between requests on a kept-alive connection
  std::chrono::milliseconds write_timeout{60'000};  // a client that does not read for so long is gone
};

enum class RouteAccess {
  kKeyed,  // needs an API key when the server has any
  kOpen,   // needs none: probes
};

// Which handler answers which request. Patterns are literal but for {name} segments, which match one segment that is
// not empty, and a last {name...}, which matches one or more (a model named "org/model"); their text lands in
// path_args. The route added first wins. A GET route answers HEAD too. Build it before the server starts; immutable
// afterwards.
class Router {
 public:
  // `pattern` starts with '/'; `method` is upper case.
  void add(std::string method, std::string pattern, Handler handler, RouteAccess access = RouteAccess::kKeyed);

  struct Match {
    const Handler* handler = nullptr;  // nullptr: see allow
    std::string_view pattern;          // of the handler's route; lives as long as the router
    RouteAccess access = RouteAccess::kKeyed;
    std::vector<std::string> path_args;
    std::string allow;  // methods of the path when only the method is wrong; "" when the path is unknown
  };
  Match match(std::string_view method, std::string_view path) const;

  // What is refused in place of a handler of `path`, or of anything under it, is written by `shape`: clients of another
  // protocol read errors of another shape. `path` does not end in '/'.
  void shape_errors(std::string path, ErrorShape shape);
  // The error for a request of that path, "" where none could be read.
  HttpResponse error_answer(std::string_view path, const HttpError& error, const std::string& request_id) const;

  // "POST /v1/completions" and so on, in the order of add().
  std::vector<std::string> names() const;

 private:
  struct Route {
    std::string method;
    std::string pattern;
    Handler handler;
    RouteAccess access;
  };
  std::vector<Route> routes_;
  std::vector<std::pair<std::string, ErrorShape>> shapes_;  // by path
};

// One line per finished exchange, for logs and metrics, also for what was refused below the handlers. `route` is the
// pattern, never the raw path; "" where no route matched. `method` is "" where the request could not be read.
struct AccessRecord {
  std::string method, route, remote, request_id;
  int status = 0;             // 0 when the client went away before a head was sent
  double seconds = 0;         // from the request's first byte to the end of the answer
  bool disconnected = false;  // the client went away before the end of the answer
  std::string failure;        // how the handler failed, "" if it did not; never sent to the client
};

class HttpServer {
 public:
  // `on_access` runs on the connections' strands, so on several threads at once; it must not throw and may be null.
  HttpServer(boost::asio::io_context& io, const HttpLimits& limits, Router router,
             std::function<void(const AccessRecord&)> on_access, AccessPolicy access = {});
  ~HttpServer();

  // Binds and starts accepting. `port` 0 picks a free one. Errors name the address and say what to do.
  Status listen(const std::string& host, uint16_t port);
  uint16_t port() const;  // the bound port, after listen()

  // Stops accepting and closes connections that are between requests; the others close after the answer in progress.
  // Returns at once; the io_context does it.
  void begin_drain();
  size_t connections() const;  // open now, without those that are only told that there are too many
  size_t exchanges() const;    // requests being answered now
  // Closes everything at once: handlers in progress see their client go away. Returns at once; the io_context does it.
  void stop();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace twostroke::http
