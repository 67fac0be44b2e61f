// A live HttpServer on 127.0.0.1 with two I/O threads, routes that show each way to answer, and ways for a test to wait
// for what happens in it.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/http/server.h"

namespace twostroke::http {

// Counts occurrences that a test waits for. Thread-safe.
class Occurrences {
 public:
  void add();
  bool wait_for(size_t count);  // false after 30 s
  size_t count() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_ = 0;
};

// Holds handlers back until the test opens it or their own client goes away. Thread-safe.
class Gate {
 public:
  // Sets on_disconnect; `disconnected` counts that it ran.
  boost::asio::awaitable<void> wait(Exchange& exchange, Occurrences& disconnected);
  void open();
  void forget();  // the timers, before their io_context ends

 private:
  std::mutex mutex_;
  bool open_ = false;
  std::vector<std::shared_ptr<boost::asio::steady_timer>> waiting_;
};

// Whether `condition` becomes true within 30 s. For what has no event to wait for.
bool eventually(const std::function<bool()>& condition);

// Routes:
//   GET  /hello          "hello"                         POST /echo    the request's body
//   GET  /wait           "waited", once the gate opens   GET  /stream  three chunks, the last once the gate opens
//   POST /hold           the request's body, once the gate opens
//   GET  /endless        64 KiB chunks until the client is gone         GET  /flood  the same in one answer of 64 MiB
//   GET  /probe  "probed", an open route               GET  /tenant  the number of the request's tenant
//   GET  /throw, /throw-in-stream, /forget               GET  /args/{a}/{b...}
//   POST /shaped, GET /shaped/throw   errors under /shaped are "STATUS|MESSAGE|REQUEST ID"
class TestServer {
 public:
  explicit TestServer(const HttpLimits& limits = {}, AccessPolicy access = {});
  ~TestServer();  // stops the server, and waits until its I/O threads have nothing left to do

  HttpServer& http() { return *http_; }
  uint16_t port() const { return port_; }
  std::vector<AccessRecord> access() const;
  // The last of `count` finished exchanges.
  AccessRecord wait_for_access(size_t count);

  Gate gate;
  Occurrences entered;       // handlers that began to wait or to stream
  Occurrences disconnected;  // on_disconnect callbacks that ran
  Occurrences failed_writes;

  void destroy_http() { http_.reset(); }
  // Waits until every coroutine of the server has ended, which they do after stop() or a drain.
  void join();
  // Ends the I/O threads and destroys the io_context with whatever is still suspended on it.
  void destroy_io();

 private:
  Router routes();

  std::optional<boost::asio::io_context> io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  mutable std::mutex mutex_;
  std::vector<AccessRecord> access_;
  Occurrences finished_;
  std::unique_ptr<HttpServer> http_;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace twostroke::http
