// GET /debug/requests, /debug/requests/{id}, /debug/steps: what the engine does, and why something waits.
//
// For operators: whoever has one of the server's API keys sees all calls, whose ever they are; all keys are equal here.
// No prompt and no answer is shown, only numbers.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "server/openai/debug_format.h"
#include "server/openai/endpoint.h"
#include "server/openai/query.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

namespace {

using ExplanationsOrError = std::variant<Engine::Explanations, ApiError>;

// Shared by the coroutine that waits and the step thread, which may answer long after that has given up.
struct Question {
  explicit Question(const asio::any_io_executor& executor) : timer(executor) {}
  asio::steady_timer timer;
  std::optional<Result<Engine::Explanations>> answer;
};

ApiError engine_is_busy(const Service& service) {
  const double age = to_seconds(service.engine.step_age_ns());
  return {.status = 504,
          .message = "The engine has not answered in time: it has been in one step for " +
                     std::to_string(static_cast<uint64_t>(age * 1000)) +
                     " ms, and answers between steps only. Ask again, and see /readyz if this stays so.",
          .type = "server_error",
          .code = "engine_busy"};
}

// Asks the step thread, and waits for a bounded time.
asio::awaitable<ExplanationsOrError> ask_engine(Exchange& exchange, Service& service, std::vector<RequestId> requests) {
  const asio::any_io_executor executor = exchange.executor();
  const auto question = std::make_shared<Question>(executor);
  question->timer.expires_after(service.limits.explain_timeout);
  service.engine.explain(std::move(requests), [question, executor](Result<Engine::Explanations> answer) {
    // On the exchange's strand: behind the wait below.
    asio::post(executor, [question, answer = std::move(answer)]() mutable {
      question->answer = std::move(answer);
      question->timer.cancel();
    });
  });
  auto wait = question->timer.async_wait(asio::as_tuple(asio::use_awaitable));
  co_await std::move(wait);
  if (!question->answer) co_return engine_is_busy(service);
  if (!question->answer->ok()) co_return to_api_error(question->answer->status());
  co_return std::move(**question->answer);
}

asio::awaitable<void> respond_json(Exchange& exchange, const Json& json) {
  HttpResponse response;
  response.body = to_text(json);
  co_await exchange.respond(std::move(response));
}

std::vector<RequestId> unended(const std::vector<RequestIndex::Call>& calls) {
  std::vector<RequestId> requests;
  for (const RequestIndex::Call& call : calls) {
    for (const RequestIndex::Part& part : call.parts) {
      if (!part.end) requests.push_back(part.request);
    }
  }
  return requests;
}

}  // namespace

asio::awaitable<void> debug_request(Exchange& exchange, Service& service) {
  const std::string& id = exchange.request().path_args.at(0);
  std::optional<RequestIndex::Call> call = service.hub.index().find(id);
  if (!call) {
    const ApiError error{
        .status = 404,
        .message = "There is no request '" + id.substr(0, 100) +
                   "': ask with the id of its answer or its X-Request-Id. Of requests that have ended "
                   "only the last " +
                   std::to_string(RequestIndex::kEndedMax) +
                   " are known, of those whose prompt is still being read none, and of those that were "
                   "refused none: their answer says why.",
        .code = "request_not_found"};
    HttpResponse response = error_response(error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  Engine::Explanations explanations;
  if (std::vector<RequestId> requests = unended({*call}); !requests.empty()) {
    ExplanationsOrError answer = co_await ask_engine(exchange, service, std::move(requests));
    if (const auto* error = std::get_if<ApiError>(&answer)) {
      HttpResponse response = error_response(*error);
      co_await exchange.respond(std::move(response));
      co_return;
    }
    explanations = std::get<Engine::Explanations>(std::move(answer));
  }
  const Json json = debug_call(*call, explanations, service.engine.now());
  co_await respond_json(exchange, json);
}

asio::awaitable<void> debug_requests(Exchange& exchange, Service& service) {
  const auto limit = query_count(exchange.request().query, "limit", 100, kDebugCallsMax);
  if (const auto* error = std::get_if<ApiError>(&limit)) {
    HttpResponse response = error_response(*error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  const std::vector<RequestIndex::Call> calls = service.hub.index().live(std::get<size_t>(limit));
  Engine::Explanations explanations;
  if (std::vector<RequestId> requests = unended(calls); !requests.empty()) {
    ExplanationsOrError answer = co_await ask_engine(exchange, service, std::move(requests));
    if (const auto* error = std::get_if<ApiError>(&answer)) {
      HttpResponse response = error_response(*error);
      co_await exchange.respond(std::move(response));
      co_return;
    }
    explanations = std::get<Engine::Explanations>(std::move(answer));
  }
  Json json = {{"data", Json::array()}, {"engine_requests", service.hub.index().live_requests()}};
  const TimeNs now = service.engine.now();
  auto begin = explanations.begin();
  for (const RequestIndex::Call& call : calls) {
    const auto end = begin + static_cast<std::ptrdiff_t>(call.parts.size());
    json["data"].push_back(debug_call_summary(call, {begin, end}, now));
    begin = end;
  }
  co_await respond_json(exchange, json);
}

asio::awaitable<void> debug_steps(Exchange& exchange, Service& service) {
  const auto last = query_count(exchange.request().query, "last", 100, service.hub.steps().capacity());
  if (const auto* error = std::get_if<ApiError>(&last)) {
    HttpResponse response = error_response(*error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  Json json = {{"data", Json::array()}};
  const TimeNs now = service.engine.now();
  for (const StepRecord& step : service.hub.steps().last(std::get<size_t>(last))) {
    json["data"].push_back(debug_step(step, now));
  }
  co_await respond_json(exchange, json);
}

}  // namespace twostroke::openai
