// Exchange: one request and its answer on one connection, as a handler sees it.
//
// A handler is a coroutine that gets the complete request and answers it in one of two ways:
//     co_await exchange.respond(response);
// or  co_await exchange.begin_stream(...);  co_await exchange.write(...) any number of times;  co_await
// exchange.end_stream(); A handler that returns without an answer, or throws, gets a 500 sent for it (or the stream cut
// off, if it had begun).
//
// The connection watches the client while the handler runs: when the client goes away (or half-closes), the callback of
// on_disconnect() runs and all later writes return false.
//
// Pass values to these functions by std::move from a named variable: g++ 12 destroys some temporaries inside a co_await
// expression twice.
//
// Thread-safety: used only on executor(), which is a strand of the connection; the callback runs there too. One
// respond, begin_stream, write or end_stream at a time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace twostroke::http {

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  virtual boost::asio::any_io_executor executor() const = 0;

  // Sends the whole answer. False: the client is gone.
  virtual boost::asio::awaitable<bool> respond(HttpResponse response) = 0;

  // Sends the head of a chunked answer: `head.body` is not sent, everything else is. For server-sent events the content
  // type is "text/event-stream"; Cache-Control: no-cache and X-Accel-Buffering: no are then added.
  virtual boost::asio::awaitable<bool> begin_stream(HttpResponse head) = 0;
  // Sends `data` as one chunk and returns when the socket has taken it, or false when the client is gone or did not
  // read for HttpLimits::write_timeout. What `data` refers to must stay until then.
  virtual boost::asio::awaitable<bool> write(std::string_view data) = 0;
  virtual boost::asio::awaitable<bool> end_stream() = 0;

  // Called at most once, when the client goes away before the answer is complete; soon, but not inside this call, when
  // it already has. It must not throw. Replaces an earlier callback; nullptr removes it, and the server does that when
  // the handler returns.
  virtual void on_disconnect(std::function<void()> callback) = 0;
  virtual bool disconnected() const = 0;
};

using Handler = std::function<boost::asio::awaitable<void>(Exchange&)>;

}  // namespace twostroke::http
