// What the endpoints share: each is a thin mapping of parse, prepare, start, answer.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/http/exchange.h"
#include "server/openai/answer.h"
#include "server/openai/json.h"
#include "server/openai/prepare.h"
#include "server/openai/service.h"
#include "server/openai/text_thread.h"

namespace twostroke::openai {

// A larger body is parsed on a text thread, where it delays nobody's stream.
constexpr size_t kBodyBytesOnIoThreadMax = 64 * 1024;

constexpr size_t kDebugCallsMax = 1000;  // in one answer of /debug/requests

template <typename Request>
using Parsed = std::variant<Request, ApiError>;

// The body, read by `parse`, on a text thread if it is large.
template <typename Request>
boost::asio::awaitable<Parsed<Request>> read_request(http::Exchange& exchange, Service& service,
                                                     Parsed<Request> (*parse)(const Json& body, int32_t vocab_size)) {
  if (auto error = check_content_headers(exchange.request())) co_return *std::move(error);
  const auto read = [parse, vocab_size = service.tokenizer.vocab_size()](std::string_view text) -> Parsed<Request> {
    const auto body = parse_object(text);
    if (const auto* error = std::get_if<ApiError>(&body)) return *error;
    return parse(std::get<Json>(body), vocab_size);
  };
  const std::string& text = exchange.request().body;
  if (text.size() <= kBodyBytesOnIoThreadMax) co_return read(text);
  std::function<Parsed<Request>()> work = [read, text] { return read(text); };
  Parsed<Request> parsed = co_await on_text_thread(service, std::move(work));
  co_return parsed;
}

// Sends the error, and counts it as a generation request that was refused; in the protocol's own words, or OpenAI's.
boost::asio::awaitable<void> refuse(http::Exchange& exchange, const Service& service, const ApiError& error,
                                    http::HttpResponse response);
boost::asio::awaitable<void> refuse(http::Exchange& exchange, const Service& service, const ApiError& error);

// 404 for a model that is not this server's; "" is this server's.
std::optional<ApiError> check_model(const Service& service, const std::string& model);

// The body of an answer, or why there is none.
using BodyOrError = std::variant<std::string, ApiError>;

// Answers a request that needs no engine: `make_body` runs on a text thread.
template <typename Request>
boost::asio::awaitable<void> answer_from_text(http::Exchange& exchange, Service& service,
                                              Parsed<Request> (*parse)(const Json& body, int32_t vocab_size),
                                              BodyOrError (*make_body)(const Service& service,
                                                                       const Request& request)) {
  Parsed<Request> parsed = co_await read_request<Request>(exchange, service, parse);
  BodyOrError body;
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    body = *error;
  } else if (const auto unknown = check_model(service, std::get<Request>(parsed).model)) {
    body = *unknown;
  } else {
    // Shared with the text thread, which may outlive this coroutine when the server stops.
    const auto request = std::make_shared<const Request>(std::get<Request>(std::move(parsed)));
    std::function<BodyOrError()> work = [&service, request, make_body] { return make_body(service, *request); };
    body = co_await on_text_thread(service, std::move(work));
  }
  http::HttpResponse response;
  if (const auto* error = std::get_if<ApiError>(&body)) {
    response = error_response(*error);
  } else {
    response.body = std::get<std::string>(std::move(body));
  }
  co_await exchange.respond(std::move(response));
}

// How people may ask about this call later.
CallName call_name(const http::Exchange& exchange, const std::string& id);

// From checked request to answer, the same for every protocol.
boost::asio::awaitable<void> generate(http::Exchange& exchange, Service& service, const GenerationOptions& given,
                                      std::function<Prompts()> prepare, uint32_t max_tokens_default,
                                      AnswerFormat& format);

// The endpoints that add_routes() registers, each in a file of its own name.
boost::asio::awaitable<void> chat_completions(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> completions(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> create_response(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> get_response(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> delete_response(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> cancel_response(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> list_response_input(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> anthropic_messages(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> anthropic_count_tokens(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> render_chat_completion(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> render_completion(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> embeddings(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> tokenize(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> detokenize(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> openapi(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> debug_requests(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> debug_request(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> debug_steps(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> list_models(http::Exchange& exchange, Service& service);
boost::asio::awaitable<void> get_model(http::Exchange& exchange, Service& service);

}  // namespace twostroke::openai
