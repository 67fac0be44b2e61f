#include "server/openai/embeddings/embedding_run.h"

namespace twostroke::openai {

namespace asio = boost::asio;

// A request that pools has one event, its end, which a queue always takes: it cannot overflow.
EmbeddingRun::EmbeddingRun(Service& service, asio::any_io_executor executor, Pooling pooling, uint64_t cache_salt,
                           uint64_t tenant, CallName name)
    : service_(service),
      pooling_(pooling),
      cache_salt_(cache_salt),
      tenant_(tenant),
      name_(std::make_shared<const CallName>(std::move(name))),
      queue_(std::make_shared<EventQueue>(std::move(executor), service.limits.pending_events_max, [] {})) {}

EmbeddingRun::~EmbeddingRun() { cancel_all(); }

void EmbeddingRun::cancel_all() {
  for (const auto& [id, input] : in_flight_) {
    service_.engine.cancel(id);
    service_.hub.detach(id);
  }
  in_flight_.clear();
}

void EmbeddingRun::abandon() {
  cancel_all();
  queue_->close();
}

Status EmbeddingRun::submit(const std::vector<TokenId>& input, size_t index, uint32_t& retry_after_s) {
  Request request;
  request.id = service_.hub.next_id();
  request.prompt = input;
  request.pooling = pooling_;
  request.cache_salt = cache_salt_;
  service_.tenants.mark(request, tenant_);
  const RequestId id = request.id;
  service_.hub.attach(id, queue_);
  service_.hub.index().add(id, name_);
  Status status = service_.engine.submit(std::move(request), &retry_after_s);
  if (status.ok()) {
    in_flight_.emplace(id, index);
  } else {
    service_.hub.detach(id);
    service_.hub.index().refused(id);
  }
  return status;
}

std::optional<ApiError> EmbeddingRun::take(const Event& event, const Sink& sink) {
  const auto found = in_flight_.find(event.request);
  CHECK(found != in_flight_.end() && event.kind == Event::Kind::kEnded, "a request that pools ends, and nothing else");
  const size_t input = found->second;
  in_flight_.erase(found);
  if (event.outcome == Outcome::kFailed) return to_api_error(event.error);
  if (event.outcome == Outcome::kCancelled) {
    return ApiError{
        .status = 503, .message = "The request was cancelled.", .type = "server_error", .code = "cancelled"};
  }
  sink(input, event.embedding);
  return std::nullopt;
}

asio::awaitable<std::optional<ApiError>> EmbeddingRun::run(const std::vector<std::vector<TokenId>>& inputs,
                                                           const Sink& sink) {
  size_t next = 0;
  while (next < inputs.size() || !in_flight_.empty()) {
    while (next < inputs.size() && in_flight_.size() < kInFlightMax) {
      uint32_t retry_after_s = 0;
      const Status status = submit(inputs[next], next, retry_after_s);
      if (status.code() == StatusCode::kResourceExhausted && !in_flight_.empty()) break;
      if (!status.ok()) co_return to_api_error(status, retry_after_s);
      ++next;
    }
    const std::vector<Event> events = co_await queue_->next(std::chrono::milliseconds(0));
    if (abandoned()) co_return std::nullopt;
    for (const Event& event : events) {
      if (auto error = take(event, sink)) co_return error;
    }
  }
  co_return std::nullopt;
}

}  // namespace twostroke::openai
