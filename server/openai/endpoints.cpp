// The endpoints, each a thin mapping: parse, prepare, start, answer.
#include <boost/asio/awaitable.hpp>
#include <memory>

#include "server/openai/chat_format.h"
#include "server/openai/completion_format.h"
#include "server/openai/json.h"
#include "server/openai/prepare.h"
#include "server/openai/service.h"
#include "server/openai/text_thread.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

namespace {

constexpr uint32_t kCompletionTokensDefault = 16;
// A larger body is parsed on a text thread, where it delays nobody's stream.
constexpr size_t kBodyBytesOnIoThreadMax = 64 * 1024;

template <typename Request>
using Parsed = std::variant<Request, ApiError>;

template <typename Request>
asio::awaitable<Parsed<Request>> read_request(Exchange& exchange, Service& service,
                                              Parsed<Request> (*parse)(const Json& body, int32_t vocab_size)) {
  const auto read = [parse, vocab_size = service.tokenizer.vocab_size()](std::string_view content_type,
                                                                         std::string_view text) -> Parsed<Request> {
    const auto body = parse_body(content_type, text);
    if (const auto* error = std::get_if<ApiError>(&body)) return *error;
    return parse(std::get<Json>(body), vocab_size);
  };
  const std::string_view content_type = exchange.request().header("Content-Type");
  const std::string& text = exchange.request().body;
  if (text.size() <= kBodyBytesOnIoThreadMax) co_return read(content_type, text);
  std::function<Parsed<Request>()> work = [read, content_type = std::string(content_type), text] {
    return read(content_type, text);
  };
  Parsed<Request> parsed = co_await on_text_thread(service, std::move(work));
  co_return parsed;
}

asio::awaitable<void> refuse(Exchange& exchange, const Service& service, const ApiError& error) {
  service.on_refusal(error.status);
  HttpResponse response = error_response(error);
  co_await exchange.respond(std::move(response));
}

std::optional<ApiError> check_model(const Service& service, const std::string& model) {
  if (model.empty() || model == service.model_name) return std::nullopt;
  return ApiError{.status = 404,
                  .message = "The model '" + model.substr(0, 200) + "' does not exist here: this server has '" +
                             service.model_name + "'.",
                  .param = "model",
                  .code = "model_not_found"};
}

// From checked request to answer, the same for every protocol.
asio::awaitable<void> generate(Exchange& exchange, Service& service, const GenerationOptions& options,
                               std::function<Prompts()> prepare, uint32_t max_tokens_default, AnswerFormat& format) {
  Prompts prompts = co_await on_text_thread(service, std::move(prepare));
  if (const auto* error = std::get_if<ApiError>(&prompts)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  if (exchange.disconnected()) co_return;
  Generation generation(service, exchange.executor(), options);
  if (const auto error = generation.start(std::get<0>(std::move(prompts)), max_tokens_default)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  co_await answer(exchange, service, generation, format, options);
}

asio::awaitable<void> chat_completions(Exchange& exchange, Service& service) {
  Parsed<ChatRequest> parsed = co_await read_request<ChatRequest>(exchange, service, parse_chat_request);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  // Shared with the text thread, which may outlive this coroutine when the server stops.
  const auto request = std::make_shared<const ChatRequest>(std::get<ChatRequest>(std::move(parsed)));
  if (const auto error = check_model(service, request->model)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  ChatFormat format(service.tokenizer, service.model_name, request->options);
  std::function<Prompts()> prepare = [&service, request] { return prepare_chat(service, *request); };
  const auto context_max = static_cast<uint32_t>(service.engine.backend_info().context_max);
  co_await generate(exchange, service, request->options, std::move(prepare), context_max, format);
}

asio::awaitable<void> completions(Exchange& exchange, Service& service) {
  Parsed<CompletionRequest> parsed =
      co_await read_request<CompletionRequest>(exchange, service, parse_completion_request);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  const auto request = std::make_shared<const CompletionRequest>(std::get<CompletionRequest>(std::move(parsed)));
  if (const auto error = check_model(service, request->model)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  CompletionFormat format(service.tokenizer, service.model_name, request->options,
                          request->prompts.size() * request->options.n);
  std::function<Prompts()> prepare = [&service, request] { return prepare_completion(service, *request); };
  co_await generate(exchange, service, request->options, std::move(prepare), kCompletionTokensDefault, format);
}

Json model_entry(const Service& service) {
  return {{"id", service.model_name},   {"object", "model"},
          {"created", service.created}, {"owned_by", "twostroke"},
          {"parent", nullptr},          {"max_model_len", service.engine.backend_info().context_max}};
}

asio::awaitable<void> list_models(Exchange& exchange, Service& service) {
  HttpResponse response;
  response.body = to_text({{"object", "list"}, {"data", Json::array({model_entry(service)})}});
  co_await exchange.respond(std::move(response));
}

asio::awaitable<void> get_model(Exchange& exchange, Service& service) {
  if (const auto error = check_model(service, exchange.request().path_args.at(0))) {
    HttpResponse response = error_response(*error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  HttpResponse response;
  response.body = to_text(model_entry(service));
  co_await exchange.respond(std::move(response));
}

}  // namespace

void add_routes(http::Router& router, const ServiceSlot& slot) {
  using Endpoint = asio::awaitable<void> (*)(Exchange&, Service&);
  const auto add = [&](const char* method, const char* path, Endpoint endpoint) {
    router.add(method, path, [&slot, endpoint](Exchange& exchange) -> asio::awaitable<void> {
      if (Service* service = slot.get()) {
        co_await endpoint(exchange, *service);
        co_return;
      }
      HttpResponse response = error_response(to_api_error(unavailable("The model is loading: try again in a moment.")));
      co_await exchange.respond(std::move(response));
    });
  };
  add("POST", "/v1/chat/completions", chat_completions);
  add("POST", "/v1/completions", completions);
  add("GET", "/v1/models", list_models);
  add("GET", "/v1/models/{model...}", get_model);
}

}  // namespace twostroke::openai
