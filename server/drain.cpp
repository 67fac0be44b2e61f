#include "server/drain.h"

#include <spdlog/spdlog.h>

#include <boost/asio/bind_executor.hpp>
#include <csignal>

namespace twostroke {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

// How often the end of the last request is looked for while draining.
constexpr milliseconds kWatchInterval{10};

}  // namespace

Drain::Drain(asio::io_context& io, const Times& times, Health& health, http::HttpServer& server, Callbacks callbacks)
    : strand_(asio::make_strand(io)),
      signals_(strand_, SIGTERM, SIGINT),
      timer_(strand_),
      times_(times),
      health_(health),
      server_(server),
      callbacks_(std::move(callbacks)) {
  wait_for_signal();
}

void Drain::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    if (draining_) {
      spdlog::warn("second signal: ending now");
      signals_.clear();  // a third one ends the process, whatever it hangs in
      timer_.cancel();
      finish();
      return;
    }
    begin(signal);
    wait_for_signal();
  });
}

void Drain::begin(int signal) {
  draining_ = true;
  health_.draining();
  // Nobody has to notice that Ctrl-C was pressed, or that a server which was not ready yet still is not.
  const bool at_once = signal == SIGINT || engine_.load() == nullptr;
  const milliseconds notice = at_once ? milliseconds(0) : times_.notice;
  spdlog::info("draining: {} ms notice, then at most {} ms for {} requests under way", notice.count(),
               times_.timeout.count(), server_.exchanges());
  timer_.expires_after(notice);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) refuse();
  });
}

void Drain::refuse() {
  deadline_ = std::chrono::steady_clock::now() + times_.timeout;
  watch();
}

void Drain::watch() {
  Engine* engine = engine_.load();
  if (engine != nullptr) engine->begin_drain();  // here, as it may have been loaded meanwhile
  const bool time_is_up = std::chrono::steady_clock::now() >= deadline_;
  const bool nothing_left = (engine == nullptr || engine->drained()) && server_.exchanges() == 0;
  if (nothing_left || (time_is_up && stopped_)) {
    signals_.clear();  // from here on a signal ends the process, whatever it hangs in
    signals_.cancel();
    if (engine != nullptr) engine->stop();
    if (!nothing_left) callbacks_.fail_requests();
    deadline_ = std::chrono::steady_clock::now() + times_.hang;
    await_engine();
    return;
  }
  if (time_is_up) {
    finish();
    return;
  }
  timer_.expires_after(kWatchInterval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) watch();
  });
}

void Drain::finish() {
  if (stopped_) return;
  stopped_ = true;
  if (server_.exchanges() > 0) spdlog::warn("{} requests did not finish in time and get an error", server_.exchanges());
  if (Engine* engine = engine_.load()) engine->stop();
  deadline_ = std::chrono::steady_clock::now() + times_.flush;
  watch();
}

void Drain::await_engine() {
  Engine* engine = engine_.load();
  if (engine == nullptr || engine->ended()) {
    callbacks_.on_end();
    return;
  }
  if (std::chrono::steady_clock::now() >= deadline_) {
    callbacks_.on_hang();
    return;
  }
  timer_.expires_after(kWatchInterval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) await_engine();
  });
}

}  // namespace twostroke
