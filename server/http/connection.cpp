#include "server/http/connection.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/dispatch.hpp>
#include <exception>
#include <utility>

#include "server/http/connection_exchange.h"
#include "server/http/error_body.h"
#include "server/http/server_state.h"

namespace twostroke::http {
namespace {

namespace asio = boost::asio;
using Clock = Transport::Clock;

std::string address_of(const asio::ip::tcp::socket& socket) {
  boost::system::error_code ec;
  const asio::ip::tcp::endpoint endpoint = socket.remote_endpoint(ec);
  return ec ? std::string() : endpoint.address().to_string();
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

HttpError internal_error() {
  return {.status = 500,
          .message = "The server failed to answer this request. It is not the request's fault.",
          .code = "internal_error"};
}

HttpError timeout_error() {
  return {.status = 408, .message = "The request did not arrive in time.", .code = "request_timeout"};
}

HttpError busy_error(std::string message, std::string code) {
  return {.status = 503, .message = std::move(message), .code = std::move(code), .headers = {{"Retry-After", "1"}}};
}

HttpError too_many_connections_error(size_t connections_max) {
  return busy_error(
      "The server has as many connections as it takes (" + std::to_string(connections_max) + "). Try again.",
      "too_many_connections");
}

HttpError too_many_bodies_error() {
  return busy_error("The server holds as many bytes of requests as it takes. Try again.", "too_many_bytes");
}

HttpError no_route_error(const HttpRequest& request, const std::string& allow) {
  constexpr size_t kShownMax = 200;
  const std::string name = request.method + " " + request.path.substr(0, kShownMax);
  if (allow.empty()) return {.status = 404, .message = "There is no " + name + " here.", .code = "unknown_url"};
  return {.status = 405,
          .message = "There is no " + name + " here; the path takes " + allow + ".",
          .code = "method_not_allowed",
          .headers = {{"Allow", allow + ", OPTIONS"}}};
}

// What a path takes, and for browsers whether they may ask.
HttpResponse options_response(const AccessPolicy& access, const HttpRequest& request, const std::string& allow) {
  HttpResponse response{.status = 204};
  response.headers = access.preflight_headers(request, allow + ", OPTIONS");
  return response;
}

// Counts an exchange for as long as it lives, also when its coroutine is destroyed half-way.
class ExchangeCount {
 public:
  explicit ExchangeCount(std::atomic<size_t>& count) : count_(count) { ++count_; }
  ~ExchangeCount() { --count_; }
  ExchangeCount(const ExchangeCount&) = delete;
  ExchangeCount& operator=(const ExchangeCount&) = delete;

 private:
  std::atomic<size_t>& count_;
};

// Runs the handler and returns how it failed, or "". Whatever it throws ends its exchange and nothing else.
asio::awaitable<std::string> run_handler(const Handler& handler, ConnectionExchange& exchange) {
  try {
    auto work = handler(exchange);
    co_await std::move(work);
  } catch (const std::exception& exception) {
    co_return std::string("the handler threw: ") + exception.what();
  } catch (...) {
    co_return std::string("the handler threw what is no std::exception");
  }
  if (exchange.complete() || exchange.disconnected()) co_return std::string();
  co_return std::string(exchange.begun() ? "the handler did not end its stream" : "the handler did not answer");
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerState> state, asio::ip::tcp::socket socket)
    : state_(std::move(state)),
      remote_(address_of(socket)),
      transport_(std::make_shared<Transport>(std::move(socket), state_->limits.write_timeout)) {}

Connection::~Connection() { state_->connections.remove(this); }

void Connection::start() {
  const auto self = shared_from_this();
  const Admission admission = state_->connections.add(self);
  if (admission == Admission::kTurnedAway) return;
  asio::co_spawn(transport_->executor(), run(admission), [self](std::exception_ptr) {
    // An exception here is memory that ran out: this client is given up, not the server.
    self->transport_->close();
    self->state_->connections.remove(self.get());
  });
}

void Connection::drain() {
  asio::dispatch(transport_->executor(), [self = shared_from_this()] {
    if (self->idle_) self->transport_->wake();
  });
}

void Connection::leave() {
  asio::dispatch(transport_->executor(), [self = shared_from_this()] {
    self->leaving_ = true;
    if (self->idle_) self->transport_->wake();
  });
}

void Connection::stop() {
  asio::dispatch(transport_->executor(), [self = shared_from_this()] { self->transport_->close(); });
}

asio::awaitable<void> Connection::run(Admission admission) {
  const auto self = shared_from_this();
  transport_->start();
  if (admission == Admission::kServed) {
    co_await serve();
  } else {
    HttpError error = too_many_connections_error(state_->limits.connections_max);
    const HttpRequest unread;
    co_await refuse(std::move(error), unread);
  }
}

asio::awaitable<void> Connection::serve() {
  bool keep_alive = true;
  while (keep_alive && !leaving_) {
    const bool begun = co_await wait_for_request();
    if (!begun) co_return;
    request_begin_ = Clock::now();
    RequestParser parser(state_->limits);
    BodyShare share(state_->bodies);  // until the answer ends
    const ReadOutcome outcome = co_await read_request(parser, share);
    if (outcome == ReadOutcome::kClosed) co_return;
    if (outcome == ReadOutcome::kNotAdmitted) {
      HttpRequest head = parser.head();
      co_await answer(std::move(head), /*keep_alive=*/false, parser.http_1_0());
      co_await transport_->linger(kLinger);
      co_return;
    }
    if (outcome != ReadOutcome::kComplete) {
      HttpError error = outcome == ReadOutcome::kRejected ? parser.rejection()
                        : outcome == ReadOutcome::kNoRoom ? too_many_bodies_error()
                                                          : timeout_error();
      co_await refuse(std::move(error), parser.head());
      co_return;
    }
    HttpRequest request = parser.take();
    keep_alive = co_await answer(std::move(request), parser.keep_alive(), parser.http_1_0());
  }
  // The client may have sent more behind a request that asked for the end, or that the server's drain made the last.
  if (!transport_->unread().empty()) co_await transport_->linger(kLinger);
}

// True when the first bytes of a request are there.
asio::awaitable<bool> Connection::wait_for_request() {
  if (transport_->unread().empty()) transport_->release_memory();
  if (!transport_->unread().empty()) co_return true;
  const auto deadline = Clock::now() + state_->limits.idle_timeout;
  idle_ = true;
  state_->connections.set_idle(this, true);
  while (transport_->unread().empty() && !transport_->peer_gone() && !state_->connections.draining() && !leaving_ &&
         Clock::now() < deadline) {
    co_await transport_->wait(deadline);
  }
  state_->connections.set_idle(this, false);
  idle_ = false;
  co_return !transport_->unread().empty();
}

void Connection::parse_unread(RequestParser& parser) {
  size_t consumed = 0;
  do {
    consumed = parser.feed(transport_->unread());
    transport_->consume(consumed);
  } while (consumed > 0 && parser.stage() == RequestParser::Stage::kHeader);
}

asio::awaitable<Connection::ReadOutcome> Connection::read_request(RequestParser& parser, BodyShare& share) {
  const HttpLimits& limits = state_->limits;
  // Enough for the parser to see a header that is too large as such.
  transport_->set_unread_bytes_max(
      std::max(limits.pipelined_bytes_max, limits.header_bytes_max + Transport::kReadBytesMax));
  auto deadline = request_begin_ + limits.header_timeout;
  bool in_body = false;
  while (true) {
    parse_unread(parser);
    if (parser.stage() == RequestParser::Stage::kBody && !in_body) {
      in_body = true;
      deadline = Clock::now() + limits.body_timeout;
      if (!admits(parser.head())) co_return ReadOutcome::kNotAdmitted;
      if (parser.expects_continue() && transport_->unread().empty()) {
        const Transport::Parts parts = {"HTTP/1.1 100 Continue\r\n\r\n", {}, {}};
        const bool sent = co_await transport_->send(parts);
        if (!sent) co_return ReadOutcome::kClosed;
      }
      continue;
    }
    if (parser.stage() == RequestParser::Stage::kRejected) co_return ReadOutcome::kRejected;
    if (!share.grow_to(parser.head().body.size())) co_return ReadOutcome::kNoRoom;
    // A client that closed its side has left: nothing is computed for it.
    if (transport_->peer_gone()) co_return ReadOutcome::kClosed;
    if (parser.stage() == RequestParser::Stage::kComplete) co_return ReadOutcome::kComplete;
    if (Clock::now() >= deadline) co_return ReadOutcome::kTimedOut;
    co_await transport_->wait(deadline);
  }
}

// Whether the request may go on, as far as keys are concerned; asked before a body is read for somebody without one.
bool Connection::admits(const HttpRequest& request) const {
  const AccessPolicy& access = state_->access;
  if (!access.needs_key() || request.method == "OPTIONS") return true;
  if (state_->router.match(request.method, request.path).access == RouteAccess::kOpen) return true;
  return access.tenant(request).has_value();
}

// True: the connection goes on to the next request.
asio::awaitable<bool> Connection::answer(HttpRequest request, bool keep_alive, bool http_1_0) {
  transport_->set_unread_bytes_max(state_->limits.pipelined_bytes_max);
  request.remote = remote_;
  const std::string_view client_id = request.header("X-Request-Id");
  request.id = usable_request_id(client_id) ? std::string(client_id) : state_->request_ids.next();
  Router::Match match = state_->router.match(request.method, request.path);
  request.path_args = std::move(match.path_args);
  const AccessPolicy& access = state_->access;
  const bool admitted = admits(request);
  request.tenant = access.tenant(request).value_or(0);

  AccessRecord record;
  record.method = request.method;
  record.route = std::string(match.pattern);
  record.remote = request.remote;
  record.request_id = request.id;
  bool goes_on = false;
  {
    const ExchangeCount count(state_->exchanges);
    Headers headers = access.headers(request.header("Origin"));
    ConnectionExchange exchange(transport_, std::move(request), {keep_alive, http_1_0, std::move(headers), [this] {
                                                                   return state_->connections.draining();
                                                                 }});
    if (!admitted) {
      const HttpError error = missing_key_error();
      co_await respond_error(exchange, error);
    } else if (match.handler == nullptr && exchange.request().method == "OPTIONS" && !match.allow.empty()) {
      HttpResponse response = options_response(access, exchange.request(), match.allow);
      co_await exchange.respond(std::move(response));
    } else if (match.handler == nullptr) {
      const HttpError error = no_route_error(exchange.request(), match.allow);
      co_await respond_error(exchange, error);
    } else {
      record.failure = co_await run_handler(*match.handler, exchange);
      if (!exchange.begun()) {
        const HttpError error = internal_error();
        co_await respond_error(exchange, error);
      }
    }
    goes_on = exchange.keep_alive();
    record.status = exchange.status();
    record.disconnected = !exchange.complete() && exchange.disconnected();
    // The handler failed in mid-stream. A missing last chunk shows that; where the connection's end is the answer's
    // end, only a reset does.
    if (!exchange.complete() && exchange.ends_at_close()) transport_->reset();
  }
  record.seconds = seconds_since(request_begin_);
  if (state_->on_access) state_->on_access(record);
  co_return goes_on;
}

asio::awaitable<void> Connection::respond_error(ConnectionExchange& exchange, const HttpError& error) {
  HttpResponse response = state_->router.error_answer(exchange.request().path, error, exchange.request().id);
  co_await exchange.respond(std::move(response));
}

// Answers what is not a request that a handler could get, and ends the connection. `head` is what was read of it.
asio::awaitable<void> Connection::refuse(HttpError error, const HttpRequest& head) {
  AccessRecord record;
  record.remote = remote_;
  record.request_id = state_->request_ids.next();
  HeadOptions options;
  options.keep_alive = false;
  options.request_id = record.request_id;
  options.now = std::chrono::system_clock::now();
  const Headers headers = state_->access.headers(head.header("Origin"));
  options.headers = &headers;
  const HttpResponse response = state_->router.error_answer(head.path, error, record.request_id);
  const std::string head_text = response_head(response, options);
  const Transport::Parts parts = {head_text, response.body, {}};
  const bool sent = co_await transport_->send(parts);
  record.status = response.status;
  record.disconnected = !sent;
  record.seconds = seconds_since(request_begin_);
  if (state_->on_access) state_->on_access(record);
  co_await transport_->linger(kLinger);
}

}  // namespace twostroke::http
