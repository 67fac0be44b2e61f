// EventQueue and RequestHub: a step's events on their way from the step thread to the coroutines that answer clients.
//
//   step thread --deliver(StepOutput)--> hub, on an I/O thread --add--> EventQueue of each client --next()-->
//
// Steps that are delivered before an I/O thread comes to them are taken together, with one wake-up of each client.
//
// An EventQueue belongs to one exchange, which may have several engine requests (prompts of one call). It is bounded: a
// client that reads slower than its tokens are made lets events gather here, where one next() takes them all at once
// (so that they leave as one write); beyond the bound overflowed() is true, and the exchange cancels its requests.
#pragma once

#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "scheduler/engine.h"
#include "scheduler/journal/step_history.h"
#include "server/openai/request_index.h"

namespace twostroke::openai {

// Thread-safety: everything from any thread, but next(), from the executor given, one caller at a time. A next() that
// waits keeps its coroutine alive: close() ends it, before the io_context goes away.
class EventQueue : public std::enable_shared_from_this<EventQueue> {
 public:
  // `on_overflow` is called once, on the thread of the push that found the queue full.
  EventQueue(boost::asio::any_io_executor executor, size_t events_max, std::function<void()> on_overflow);

  // Takes an event and wakes next(); beyond the bound tokens are dropped and overflowed() becomes true. Other events
  // are always taken.
  void push(Event&& event);
  // The same, but true says that the caller must wake next(), perhaps after more events.
  bool add(Event&& event);
  // On a thread that runs the executor's context, what waits in next() goes on within this call, unless the executor is
  // at work elsewhere.
  void wake_now();
  void wake();  // soon, but not within this call
  // Wakes next() for good: the client is gone.
  void close();

  // All events since the last call, waiting for the first one at most `timeout` (zero: for ever). Empty: the time is
  // over, or close() was called.
  boost::asio::awaitable<std::vector<Event>> next(std::chrono::milliseconds timeout);

  bool closed() const;
  bool overflowed() const;

 private:
  using Clock = boost::asio::steady_timer::clock_type;

  void resume();
  void watch(Clock::time_point deadline);

  const boost::asio::any_io_executor executor_;
  const size_t events_max_;
  const std::function<void()> on_overflow_;
  mutable std::mutex mutex_;
  std::vector<Event> events_;  // guarded by mutex_
  bool wake_posted_ = false;   // guarded by mutex_
  bool closed_ = false;        // guarded by mutex_
  bool overflowed_ = false;    // guarded by mutex_
  // Executor only.
  boost::asio::any_completion_handler<void()> waiter_;  // next(), while it waits
  boost::asio::steady_timer timer_;
  bool timer_waits_ = false;
};

// Which queue belongs to which request. Thread-safe.
class RequestHub {
 public:
  // `observe` sees every step's output first (metrics); it runs on an I/O thread, for one output after another, and
  // must not throw. `io_threads` run `io`: one alone answers a step's clients at once, more share them.
  RequestHub(boost::asio::io_context& io, std::function<void(const StepOutput&)> observe, size_t io_threads = 1);

  RequestId next_id() { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  void attach(RequestId request, std::shared_ptr<EventQueue> queue);
  void detach(RequestId request);
  // Ends every request that is attached, as if the engine had: for an engine whose backend hangs, so that nothing comes
  // of it any more. What it delivers later for them is dropped.
  void fail_all(const Status& error);
  size_t attached() const;

  // Whose the requests are, for people who ask, and the last steps. They follow what is delivered.
  RequestIndex& index() { return index_; }
  const StepHistory& steps() const { return steps_; }

  // The engine's sink: one post at most, in the order of the calls.
  void deliver(StepOutput&& output);

 private:
  void take_delivered();
  void dispatch(StepOutput& output);

  boost::asio::io_context& io_;
  const std::function<void(const StepOutput&)> observe_;
  const bool answers_at_once_;
  std::atomic<RequestId> next_id_{1};
  RequestIndex index_;
  StepHistory steps_;
  mutable std::mutex mutex_;
  std::unordered_map<RequestId, std::shared_ptr<EventQueue>> queues_;  // guarded by mutex_

  std::mutex delivered_mutex_;
  std::vector<StepOutput> delivered_;  // guarded by delivered_mutex_
  bool taking_ = false;                // likewise: take_delivered() runs or is posted, once
  // take_delivered() only; kept for their memory.
  std::vector<StepOutput> taken_;
  std::vector<std::shared_ptr<EventQueue>> woken_;
};

}  // namespace twostroke::openai
