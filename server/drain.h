// Drain: the orderly end of a server, in steps on the I/O threads.
//
//   signal --> not ready, still accepting (drain_notice_ms, so that routers look away first)
//          --> new requests get 503 with Retry-After; streams go on (drain_timeout_ms at most)
//          --> what is left gets an error event; connections close; the I/O context stops
//
// A second signal skips to the last step; a third ends the process as if nobody caught it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <functional>

#include "scheduler/engine.h"
#include "server/http/server.h"
#include "server/ops/health.h"

namespace twostroke {

class Drain {
 public:
  struct Times {
    std::chrono::milliseconds notice;
    std::chrono::milliseconds timeout;
  };
  // Waits for SIGTERM and SIGINT from now on. SIGINT comes from a person, who gets no notice period. All references
  // must outlive the I/O context's run. `on_end` runs once, at the very end.
  Drain(boost::asio::io_context& io, const Times& times, Health& health, http::HttpServer& server,
        std::function<void()> on_end);

  // The engine to drain, once the model is loaded. Thread-safe.
  void set_engine(Engine* engine) { engine_.store(engine); }

 private:
  void wait_for_signal();
  void begin(int signal);
  void refuse();  // the notice period is over
  void watch();   // until nothing is left or the time is up
  void finish();

  boost::asio::strand<boost::asio::io_context::executor_type> strand_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer timer_;
  const Times times_;
  Health& health_;
  http::HttpServer& server_;
  std::function<void()> on_end_;
  std::atomic<Engine*> engine_{nullptr};
  bool draining_ = false;  // strand only, like the rest
  bool stopped_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace twostroke
