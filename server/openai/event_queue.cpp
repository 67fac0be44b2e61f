#include "server/openai/event_queue.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace twostroke::openai {

namespace asio = boost::asio;

EventQueue::EventQueue(asio::any_io_executor executor, size_t events_max, std::function<void()> on_overflow)
    : events_max_(events_max), on_overflow_(std::move(on_overflow)), timer_(executor) {}

void EventQueue::push(Event&& event) {
  bool first_overflow = false;
  bool must_wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
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
  if (must_wake) wake();
}

void EventQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    events_.clear();
  }
  wake();
}

// The timer may be touched on its executor only. A wake-up that comes while nobody waits is lost, harmlessly: next()
// looks at the events before it waits, on the same executor.
void EventQueue::wake() {
  asio::post(timer_.get_executor(), [self = shared_from_this()] { self->timer_.cancel(); });
}

asio::awaitable<std::vector<Event>> EventQueue::next(std::chrono::milliseconds timeout) {
  const auto deadline =
      timeout.count() > 0 ? asio::steady_timer::clock_type::now() + timeout : asio::steady_timer::time_point::max();
  while (true) {
    std::vector<Event> events;
    bool closed = false;
    {
      const std::lock_guard lock(mutex_);
      events.swap(events_);
      wake_posted_ = false;
      closed = closed_;
    }
    if (closed || !events.empty() || asio::steady_timer::clock_type::now() >= deadline) co_return events;
    timer_.expires_at(deadline);
    co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
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

RequestHub::RequestHub(asio::io_context& io, std::function<void(const StepOutput&)> observe)
    : strand_(asio::make_strand(io)), observe_(std::move(observe)) {}

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
  asio::post(strand_, [this, output = std::move(output)]() mutable { dispatch(output); });
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
    queue->push(std::move(event));
  }
}

}  // namespace twostroke::openai
