// Drain: the orderly end of a server, in steps on the I/O threads.
//
//   signal --> not ready, still accepting (drain_notice_ms, so that routers look away first)
//          --> new requests get 503 with Retry-After; streams go on (drain_timeout_ms at most)
//          --> what is left gets an error event, from the engine; connections close
//          --> the engine's step thread ends; the I/O context stops
//
// Each part has its bound, so that the process ends by notice + timeout + flush + hang. Only a backend that never comes
// back from a step reaches the last one. Nothing comes of the engine then: `fail_requests` ends what waits for it. The
// backend's threads cannot be stopped from outside, so that nothing can be torn down in order: `on_hang` has to end the
// process as it is. By then every client has its answer or its error.
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
    std::chrono::milliseconds flush{2'000};  // what connections may still take to send their error events
    std::chrono::milliseconds hang{5'000};   // what the step under way may still take then
  };
  struct Callbacks {
    std::function<void()> fail_requests;  // the engine does not answer: ends what waits for it
    std::function<void()> on_end;         // one of these two runs, once, at the very end
    std::function<void()> on_hang;
  };
  // Waits for SIGTERM and SIGINT from now on. SIGINT comes from a person, who gets no notice period. All references
  // must outlive the I/O context's run. The callbacks run on its threads.
  Drain(boost::asio::io_context& io, const Times& times, Health& health, http::HttpServer& server, Callbacks callbacks);

  // The engine to drain, once the model is loaded. Thread-safe.
  void set_engine(Engine* engine) { engine_.store(engine); }

 private:
  void wait_for_signal();
  void begin(int signal);
  void refuse();  // the notice period is over
  void watch();   // until nothing is left or the time is up
  void finish();
  void await_engine();

  boost::asio::strand<boost::asio::io_context::executor_type> strand_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer timer_;
  const Times times_;
  Health& health_;
  http::HttpServer& server_;
  const Callbacks callbacks_;
  std::atomic<Engine*> engine_{nullptr};
  bool draining_ = false;  // strand only, like the rest
  bool stopped_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace twostroke
