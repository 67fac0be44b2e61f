#include "server/openai/event_queue.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace twostroke::openai {

namespace asio = boost::asio;

// Room for steps that is kept once those that had gathered are taken.
constexpr size_t kStepsKept = 64;

EventQueue::EventQueue(asio::any_io_executor executor, size_t events_max, std::function<void()> on_overflow)
    : executor_(std::move(executor)),
      events_max_(events_max),
      on_overflow_(std::move(on_overflow)),
      timer_(executor_) {}

void EventQueue::push(Event&& event) {
  if (add(std::move(event))) wake();
}

bool EventQueue::add(Event&& event) {
  bool first_overflow = false;
  bool must_wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    if (events_.size() >= events_max_ && event.kind == Event::Kind::kToken) {
      first_overflow = !overflowed_;
      overflowed_ = true;
    } else {
      events_.push_back(std::move(event));
    }
    must_wake = !wake_posted_;
    wake_posted_ = true;
  }
  if (first_overflow) on_overflow_();
  return must_wake;
}

void EventQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    events_.clear();
  }
  wake();
}

// Never within the caller's call: what waits may be the end of the caller.
void EventQueue::wake() {
  asio::post(executor_, [self = shared_from_this()] { self->resume(); });
}

void EventQueue::wake_now() {
  asio::dispatch(executor_, [self = shared_from_this()] { self->resume(); });
}

// A wake-up that comes while nobody waits is lost, harmlessly: next() looks at the events before it waits, on the same
// executor.
void EventQueue::resume() {
  if (!waiter_) return;
  // Swapped, never assigned: Boost 1.81's move assignment calls itself.
  asio::any_completion_handler<void()> waiter;
  waiter.swap(waiter_);
  waiter();
}

// Has next() look at the time at `deadline`, or before. A token comes every few milliseconds and the deadline moves on
// with each, so the timer runs to its end and is then set for what the deadline has become.
void EventQueue::watch(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max() || (timer_waits_ && timer_.expiry() <= deadline)) return;
  timer_.expires_at(deadline);
  timer_waits_ = true;
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& ec) {
    const auto self = weak.lock();
    if (ec || !self) return;
    self->timer_waits_ = false;
    self->resume();
  });
}

asio::awaitable<std::vector<Event>> EventQueue::next(std::chrono::milliseconds timeout) {
  const auto deadline = timeout.count() > 0 ? Clock::now() + timeout : Clock::time_point::max();
  const auto wait = [this](auto&& handler) {
    asio::any_completion_handler<void()> waiter(std::forward<decltype(handler)>(handler));
    waiter.swap(waiter_);
  };
  while (true) {
    std::vector<Event> events;
    bool closed = false;
    {
      const std::lock_guard lock(mutex_);
      events.swap(events_);
      wake_posted_ = false;
      closed = closed_;
    }
    if (closed || !events.empty() || Clock::now() >= deadline) co_return events;
    watch(deadline);
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(wait, asio::use_awaitable);
  }
}

bool EventQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

bool EventQueue::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

RequestHub::RequestHub(asio::io_context& io, std::function<void(const StepOutput&)> observe, size_t io_threads)
    : io_(io), observe_(std::move(observe)), answers_at_once_(io_threads == 1) {}

void RequestHub::attach(RequestId request, std::shared_ptr<EventQueue> queue) {
  const std::lock_guard lock(mutex_);
  queues_.emplace(request, std::move(queue));
}

void RequestHub::detach(RequestId request) {
  const std::lock_guard lock(mutex_);
  queues_.erase(request);
}

void RequestHub::fail_all(const Status& error) {
  std::unordered_map<RequestId, std::shared_ptr<EventQueue>> queues;
  {
    const std::lock_guard lock(mutex_);
    queues.swap(queues_);
  }
  for (const auto& [request, queue] : queues) {
    queue->push({.kind = Event::Kind::kEnded, .request = request, .outcome = Outcome::kFailed, .error = error});
  }
}

size_t RequestHub::attached() const {
  const std::lock_guard lock(mutex_);
  return queues_.size();
}

void RequestHub::deliver(StepOutput&& output) {
  {
    const std::lock_guard lock(delivered_mutex_);
    delivered_.push_back(std::move(output));
    if (taking_) return;
    taking_ = true;
  }
  asio::post(io_, [this] { take_delivered(); });
}

void RequestHub::take_delivered() {
  {
    const std::lock_guard lock(delivered_mutex_);
    taken_.swap(delivered_);
  }
  for (StepOutput& output : taken_) dispatch(output);
  taken_.clear();
  if (taken_.capacity() > kStepsKept) taken_.shrink_to_fit();
  // Not before: what has waited together is to leave in one write.
  for (const std::shared_ptr<EventQueue>& queue : woken_) {
    if (answers_at_once_) {
      queue->wake_now();
    } else {
      queue->wake();
    }
  }
  woken_.clear();
  {
    const std::lock_guard lock(delivered_mutex_);
    taking_ = !delivered_.empty();
    if (!taking_) return;
  }
  asio::post(io_, [this] { take_delivered(); });
}

void RequestHub::dispatch(StepOutput& output) {
  observe_(output);
  steps_.add(output);
  index_.observe(output.events);
  for (Event& event : output.events) {
    std::shared_ptr<EventQueue> queue;
    {
      const std::lock_guard lock(mutex_);
      const auto found = queues_.find(event.request);
      if (found == queues_.end()) continue;  // the client is gone
      queue = found->second;
      if (event.kind == Event::Kind::kEnded) queues_.erase(found);
    }
    if (queue->add(std::move(event))) woken_.push_back(std::move(queue));
  }
}

}  // namespace twostroke::openai
