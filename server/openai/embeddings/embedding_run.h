// EmbeddingRun: the inputs of one call on their way through the engine, each a request of its own that pools.
//
// At most kInFlightMax of them are in the engine at once, so that a call with thousands of inputs neither fills the
// waiting queue nor stands before everybody else. Where the queue is full although some of the call's own are in it,
// the rest waits for those; where none is, the call is refused like any other.
//
// Thread-safety: used on the exchange's executor only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "server/openai/api_error.h"
#include "server/openai/event_queue.h"
#include "server/openai/service.h"

namespace twostroke::openai {

class EmbeddingRun {
 public:
  static constexpr size_t kInFlightMax = 32;

  // Called for each input once, in the order in which they end, with numbers as the model gives them.
  using Sink = std::function<void(size_t input, std::span<const float> embedding)>;

  // `tenant`: Tenants::id_of(). `name`: how people will ask about it (RequestIndex).
  EmbeddingRun(Service& service, boost::asio::any_io_executor executor, Pooling pooling, uint64_t cache_salt,
               uint64_t tenant, CallName name);
  ~EmbeddingRun();  // cancels what still runs
  EmbeddingRun(const EmbeddingRun&) = delete;
  EmbeddingRun& operator=(const EmbeddingRun&) = delete;

  // Returns when every input has ended, or with the first error; with neither when abandon() was called.
  boost::asio::awaitable<std::optional<ApiError>> run(const std::vector<std::vector<TokenId>>& inputs,
                                                      const Sink& sink);

  // The client went away: cancels everything and wakes run().
  void abandon();
  bool abandoned() const { return queue_->closed(); }

 private:
  Status submit(const std::vector<TokenId>& input, size_t index, uint32_t& retry_after_s);
  std::optional<ApiError> take(const Event& event, const Sink& sink);
  void cancel_all();

  Service& service_;
  const Pooling pooling_;
  const uint64_t cache_salt_;
  const uint64_t tenant_;
  const std::shared_ptr<const CallName> name_;
  const std::shared_ptr<EventQueue> queue_;
  std::unordered_map<RequestId, size_t> in_flight_;  // to the index of its input
};

}  // namespace twostroke::openai
