#include "tests/server/http/test_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>

namespace twostroke::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kPatience = 30s;
constexpr size_t kBlockBytes = 64 * 1024;

HttpResponse text(std::string body) {
  HttpResponse response;
  response.content_type = "text/plain";
  response.body = std::move(body);
  return response;
}

HttpResponse event_stream() {
  HttpResponse head;
  head.content_type = "text/event-stream";
  return head;
}

}  // namespace

void Occurrences::add() {
  const std::lock_guard lock(mutex_);
  ++count_;
  changed_.notify_all();
}

bool Occurrences::wait_for(size_t count) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [&] { return count_ >= count; });
}

size_t Occurrences::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

asio::awaitable<void> Gate::wait(Exchange& exchange, Occurrences& disconnected) {
  const auto timer = std::make_shared<asio::steady_timer>(exchange.executor(), asio::steady_timer::time_point::max());
  {
    const std::lock_guard lock(mutex_);
    if (open_) co_return;
    waiting_.push_back(timer);
  }
  exchange.on_disconnect([timer, &disconnected] {
    disconnected.add();
    timer->cancel();
  });
  co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
  const std::lock_guard lock(mutex_);
  std::erase(waiting_, timer);
}

void Gate::open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  for (const auto& timer : waiting_) asio::post(timer->get_executor(), [timer] { timer->cancel(); });
}

void Gate::forget() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TestServer::TestServer(const HttpLimits& limits, AccessPolicy access) {
  io_.emplace(2);
  work_.emplace(io_->get_executor());
  const auto on_access = [this](const AccessRecord& record) {
    {
      const std::lock_guard lock(mutex_);
      access_.push_back(record);
    }
    finished_.add();
  };
  http_ = std::make_unique<HttpServer>(*io_, limits, routes(), on_access, std::move(access));
  const Status status = http_->listen("127.0.0.1", 0);
  if (!status.ok()) throw std::runtime_error(status.message());
  port_ = http_->port();
  for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { io_->run(); });
}

TestServer::~TestServer() {
  if (!io_) return;
  http_.reset();
  join();
}

void TestServer::join() {
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void TestServer::destroy_io() {
  work_.reset();
  io_->stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  http_.reset();
  gate.forget();
  io_.reset();
}

std::vector<AccessRecord> TestServer::access() const {
  const std::lock_guard lock(mutex_);
  return access_;
}

AccessRecord TestServer::wait_for_access(size_t count) {
  if (!finished_.wait_for(count)) throw std::runtime_error("the exchange did not finish");
  return access()[count - 1];
}

Router TestServer::routes() {
  Router router;
  router.add("GET", "/hello", [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text("hello");
    co_await exchange.respond(std::move(response));
  });
  const auto probe = [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text("probed");
    co_await exchange.respond(std::move(response));
  };
  router.add("GET", "/probe", probe, RouteAccess::kOpen);
  router.add("GET", "/tenant", [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text(std::to_string(exchange.request().tenant));
    co_await exchange.respond(std::move(response));
  });
  router.add("POST", "/echo", [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text(exchange.request().body);
    co_await exchange.respond(std::move(response));
  });
  router.add("GET", "/args/{a}/{b...}", [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text(exchange.request().path_args[0] + "|" + exchange.request().path_args[1]);
    response.headers.emplace_back("X-Args", exchange.request().query);
    co_await exchange.respond(std::move(response));
  });
  router.add("GET", "/wait", [this](Exchange& exchange) -> asio::awaitable<void> {
    entered.add();
    co_await gate.wait(exchange, disconnected);
    HttpResponse response = text("waited");
    const bool sent = co_await exchange.respond(std::move(response));
    if (!sent) failed_writes.add();
  });
  router.add("POST", "/hold", [this](Exchange& exchange) -> asio::awaitable<void> {
    entered.add();
    co_await gate.wait(exchange, disconnected);
    HttpResponse response = text(exchange.request().body);
    co_await exchange.respond(std::move(response));
  });
  router.add("GET", "/stream", [this](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse head = event_stream();
    bool sent = co_await exchange.begin_stream(std::move(head));
    for (const char* data : {"data: 1\n\n", "", "data: 2\n\n"}) {
      std::string event = data;
      sent = co_await exchange.write(event);
    }
    entered.add();
    co_await gate.wait(exchange, disconnected);
    std::string last = "data: [DONE]\n\n";
    sent = co_await exchange.write(last);
    sent = co_await exchange.end_stream();
    if (!sent) failed_writes.add();
  });
  router.add("GET", "/endless", [this](Exchange& exchange) -> asio::awaitable<void> {
    exchange.on_disconnect([this] { disconnected.add(); });
    HttpResponse head = event_stream();
    bool sent = co_await exchange.begin_stream(std::move(head));
    entered.add();
    while (sent) {
      std::string block(kBlockBytes, 'x');
      sent = co_await exchange.write(block);
    }
    failed_writes.add();
  });
  router.add("GET", "/flood", [this](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text(std::string(1024 * kBlockBytes, 'x'));
    const bool sent = co_await exchange.respond(std::move(response));
    if (!sent) failed_writes.add();
  });
  router.add("GET", "/throw", [](Exchange&) -> asio::awaitable<void> {
    throw std::runtime_error("secret of the house");
    co_return;
  });
  router.add("GET", "/throw-in-stream", [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse head = event_stream();
    co_await exchange.begin_stream(std::move(head));
    std::string event = "data: 1\n\n";
    co_await exchange.write(event);
    throw std::runtime_error("secret of the house");
  });
  router.add("POST", "/shaped", [](Exchange& exchange) -> asio::awaitable<void> {
    HttpResponse response = text("shaped");
    co_await exchange.respond(std::move(response));
  });
  router.add("GET", "/shaped/throw", [](Exchange&) -> asio::awaitable<void> {
    throw std::runtime_error("secret of the house");
    co_return;
  });
  router.shape_errors("/shaped", [](const HttpError& error, const std::string& request_id) {
    HttpResponse response = text(std::to_string(error.status) + "|" + error.message + "|" + request_id);
    response.status = error.status;
    response.headers = error.headers;
    return response;
  });
  router.add("GET", "/forget", [](Exchange&) -> asio::awaitable<void> { co_return; });
  return router;
}

}  // namespace twostroke::http
