// on_text_thread(): work that may take long (parsing a large body, a template, tokenizing) stays off the I/O threads,
// which every other client needs.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

#include "server/openai/api_error.h"
#include "server/openai/service.h"

namespace twostroke::openai {

// A place among ServiceLimits::preparing_max, given back also when the work throws.
class PreparingPlace {
 public:
  explicit PreparingPlace(Service& service) : preparing_(service.preparing) {}
  ~PreparingPlace() { preparing_.fetch_sub(1); }
  PreparingPlace(const PreparingPlace&) = delete;
  PreparingPlace& operator=(const PreparingPlace&) = delete;

 private:
  std::atomic<size_t>& preparing_;
};

// Runs `work` on a text thread and resumes the caller on its own executor. `Outcome` is a std::variant that can hold an
// ApiError: a 429 when ServiceLimits::preparing_max pieces of work are there already. `work` owns what it needs: it may
// outlive the caller's coroutine when the server stops.
template <typename Outcome>
boost::asio::awaitable<Outcome> on_text_thread(Service& service, std::function<Outcome()> work) {
  if (service.preparing.fetch_add(1) >= service.limits.preparing_max) {
    service.preparing.fetch_sub(1);
    co_return to_api_error(resource_exhausted("Too many requests are being prepared at once: try again in a moment."));
  }
  // Named, not a temporary: g++ 12 destroys some temporaries inside a co_await expression twice.
  auto task = [&service, work = std::move(work)]() -> boost::asio::awaitable<Outcome> {
    const PreparingPlace place(service);
    co_return work();
  };
  Outcome outcome = co_await boost::asio::co_spawn(service.text_pool, std::move(task), boost::asio::use_awaitable);
  co_return outcome;
}

}  // namespace twostroke::openai
