// /v1/responses: create, get, delete, cancel, list the input.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <memory>

#include "server/openai/cache_salt.h"
#include "server/openai/endpoint.h"
#include "server/openai/objectives.h"
#include "server/openai/query.h"
#include "server/openai/responses/response_store.h"
#include "server/openai/responses/responses_format.h"
#include "server/openai/responses/responses_request.h"

namespace twostroke::openai {

namespace asio = boost::asio;
using http::Exchange;
using http::HttpResponse;

// One call, shared by its coroutine, the text threads and a run in the background.
struct ResponseCall {
  ResponsesRequest request;
  std::shared_ptr<const StoredResponse> previous;
  StoredResponse record;  // what it leaves, complete but for the answer when prepare_response() has run
};

namespace {

constexpr size_t kInputItemsPageMax = 100;

ApiError no_such_response(std::string_view id, std::string param, std::string code) {
  ApiError error{.status = 404,
                 .message = "The response '" + std::string(id.substr(0, 100)) +
                            "' is not there: it was never stored, was deleted, or had to make room."};
  if (!param.empty()) error.param = std::move(param);
  if (!code.empty()) error.code = std::move(code);
  return error;
}

// Responses belong to the API key that made them.
uint64_t tenant_of(const Exchange& exchange) { return tenant_salt(exchange); }

// Which part of a response's input a client asks for.
struct InputPage {
  bool ascending = false;  // else newest first
  size_t limit = 20;
  std::string after;  // an item's id; "": from the first one on
};

std::variant<InputPage, ApiError> parse_input_page(std::string_view query) {
  InputPage page;
  const auto limit = query_count(query, "limit", page.limit, kInputItemsPageMax);
  if (const auto* error = std::get_if<ApiError>(&limit)) return *error;
  page.limit = std::get<size_t>(limit);
  const std::string_view order = query_parameter(query, "order");
  if (!order.empty() && order != "asc" && order != "desc") {
    return bad_field("order", "'order' must be \"asc\" or \"desc\".");
  }
  page.ascending = order == "asc";
  page.after = query_parameter(query, "after");
  return page;
}

BodyOrError input_items_body(const StoredResponse& response, const InputPage& asked) {
  Json items = Json::parse(response.input_items);
  if (!asked.ascending) std::reverse(items.begin(), items.end());
  auto item = items.begin();
  if (!asked.after.empty()) {
    item = std::find_if(item, items.end(), [&](const Json& other) { return other["id"] == asked.after; });
    if (item == items.end()) return bad_field("after", "'after' names no item of this response's input.");
    ++item;
  }
  Json data = Json::array();
  for (; item != items.end() && data.size() < asked.limit; ++item) data.push_back(std::move(*item));
  Json page = {{"object", "list"}, {"data", Json::array()}, {"has_more", item != items.end()}};
  page["first_id"] = data.empty() ? Json() : data.front()["id"];
  page["last_id"] = data.empty() ? Json() : data.back()["id"];
  page["data"] = std::move(data);
  return to_text(page);
}

asio::awaitable<void> respond_json(Exchange& exchange, std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  co_await exchange.respond(std::move(response));
}

// "[a,b]" and "[c]" are "[a,b,c]".
std::string joined_arrays(const std::string& first, const std::string& second) {
  if (first.size() <= 2) return second;
  if (second.size() <= 2) return first;
  return first.substr(0, first.size() - 1) + "," + second.substr(1);
}

// On a text thread, like all that costs as much as the conversation is long.
Prompts prepare_response(const Service& service, ResponseCall& call) {
  ResponsesRequest& request = call.request;
  if (request.store) {
    Json own = Json::array();
    const Json& messages = request.chat.messages;
    for (size_t i = request.has_instructions ? 1 : 0; i < messages.size(); ++i) own.push_back(messages[i]);
    call.record.messages = call.previous ? joined_arrays(call.previous->messages, to_text(own)) : to_text(own);
    call.record.input_items = to_text(request.input_items);
  }
  if (call.previous) {
    if (auto error = insert_history(request, Json::parse(call.previous->messages))) return *error;
  }
  Prompts prompts = prepare_chat(service, request.chat);
  if (auto* error = std::get_if<ApiError>(&prompts)) return in_client_words(request.names, std::move(*error));
  return prompts;
}

StoredResponse finished_record(const ResponseCall& call, const std::string& body, const Json& message) {
  StoredResponse record = call.record;
  record.body = body;
  record.messages = joined_arrays(record.messages, "[" + to_text(message) + "]");
  return record;
}

// A response that goes on when its client has its id.
struct BackgroundRun {
  BackgroundRun(Service& service_in, const asio::any_io_executor& executor_in, std::shared_ptr<ResponseCall> call_in)
      : service(service_in),
        executor(executor_in),
        call(std::move(call_in)),
        generation(service, executor, call->request.chat.options, call->record.tenant),
        format(service.tokenizer, service.model_name, call->request,
               [this](const std::string& body, const Json& message) {
                 service.responses.end(finished_record(*call, body, message));
               }) {}

  Service& service;
  const asio::any_io_executor executor;
  const std::shared_ptr<ResponseCall> call;
  Generation generation;
  ResponsesFormat format;
};

asio::awaitable<void> run_in_background(std::shared_ptr<BackgroundRun> run) {
  size_t bytes = 0;
  while (true) {
    Batch batch = co_await run->generation.next(std::chrono::milliseconds(0));
    if (batch.gone) co_return;  // cancelled
    for (const Piece& piece : batch.pieces) bytes += piece_bytes(piece);
    if (!batch.error && bytes > run->service.limits.whole_answer_bytes_max) {
      batch.error = answer_too_large(run->service.limits.whole_answer_bytes_max);
    }
    if (batch.error) {
      StoredResponse record = run->call->record;
      record.body = run->format.failed(*batch.error, run->generation.usage());
      run->service.responses.end(std::move(record));
      co_return;
    }
    for (Piece& piece : batch.pieces) run->format.collect(std::move(piece));
    if (batch.ended) break;
  }
  run->format.body(run->generation.usage());  // its on_end keeps it
}

// Starts the generation and answers with the response that is in progress.
asio::awaitable<void> respond_in_background(Exchange& exchange, Service& service, std::shared_ptr<ResponseCall> call,
                                            uint32_t max_tokens_default) {
  std::function<Prompts()> prepare = [&service, call] { return prepare_response(service, *call); };
  Prompts prompts = co_await on_text_thread(service, std::move(prepare));
  if (const auto* error = std::get_if<ApiError>(&prompts)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  const auto run = std::make_shared<BackgroundRun>(service, exchange.executor(), call);
  call->record.id = run->format.id();
  if (const auto error = run->generation.start(std::get<PreparedPrompts>(std::move(prompts)), max_tokens_default,
                                               call_name(exchange, run->format.id()))) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  StoredResponse running = call->record;
  running.body = run->format.unfinished("in_progress");
  running.cancelled_body = run->format.unfinished("cancelled");
  std::string body = running.body;
  const bool kept = service.responses.begin(std::move(running), [weak = std::weak_ptr(run)] {
    const auto strong = weak.lock();
    if (!strong) return;
    asio::post(strong->executor, [strong] { strong->generation.abandon(); });
  });
  if (!kept) {
    const ApiError error = to_api_error(
        resource_exhausted("Too many responses run in the background: try again when some of them have ended."));
    co_await refuse(exchange, service, error);
    co_return;
  }
  auto task = run_in_background(run);
  asio::co_spawn(run->executor, std::move(task), asio::detached);
  co_await respond_json(exchange, std::move(body));
}

// The response that the path names, for the client's tenant.
std::shared_ptr<const StoredResponse> find_response(Exchange& exchange, Service& service) {
  return service.responses.find(tenant_of(exchange), exchange.request().path_args.at(0));
}

asio::awaitable<void> respond_not_found(Exchange& exchange) {
  HttpResponse response = error_response(no_such_response(exchange.request().path_args.at(0), "", ""));
  co_await exchange.respond(std::move(response));
}

}  // namespace

asio::awaitable<void> create_response(Exchange& exchange, Service& service) {
  Parsed<ResponsesRequest> parsed = co_await read_request<ResponsesRequest>(exchange, service, parse_responses_request);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  const auto call = std::make_shared<ResponseCall>();
  call->request = std::get<ResponsesRequest>(std::move(parsed));
  call->record.tenant = tenant_of(exchange);
  call->record.background = call->request.background;
  if (const auto error = check_model(service, call->request.chat.model)) {
    co_await refuse(exchange, service, *error);
    co_return;
  }
  if (const auto& id = call->request.previous_response_id) {
    call->previous = service.responses.find(call->record.tenant, *id);
    if (!call->previous) {
      const ApiError error = no_such_response(*id, "previous_response_id", "previous_response_not_found");
      co_await refuse(exchange, service, error);
      co_return;
    }
    if (call->previous->running()) {
      const ApiError error =
          bad_field("previous_response_id", "The response in 'previous_response_id' has not ended yet.");
      co_await refuse(exchange, service, error);
      co_return;
    }
  }
  const auto context_max = static_cast<uint32_t>(service.engine.backend_info().context_max);
  if (call->request.background) {
    if (const auto error = add_header_objectives(exchange.request(), call->request.chat.options.objectives)) {
      co_await refuse(exchange, service, *error);
      co_return;
    }
    co_await respond_in_background(exchange, service, call, context_max);
    co_return;
  }
  ResponsesFormat::OnEnd keep;
  if (call->request.store) {
    keep = [&service, call](const std::string& body, const Json& message) {
      service.responses.put(finished_record(*call, body, message));
    };
  }
  ResponsesFormat format(service.tokenizer, service.model_name, call->request, std::move(keep));
  call->record.id = format.id();
  std::function<Prompts()> prepare = [&service, call] { return prepare_response(service, *call); };
  co_await generate(exchange, service, call->request.chat.options, std::move(prepare), context_max, format);
}

asio::awaitable<void> get_response(Exchange& exchange, Service& service) {
  if (query_parameter(exchange.request().query, "stream") == "true") {
    HttpResponse response = error_response(
        bad_field("stream", "'stream' is not supported here: a response can be streamed when it is created only."));
    co_await exchange.respond(std::move(response));
    co_return;
  }
  const auto found = find_response(exchange, service);
  if (!found) {
    co_await respond_not_found(exchange);
    co_return;
  }
  co_await respond_json(exchange, found->body);
}

asio::awaitable<void> delete_response(Exchange& exchange, Service& service) {
  const std::string& id = exchange.request().path_args.at(0);
  if (!service.responses.erase(tenant_of(exchange), id)) {
    co_await respond_not_found(exchange);
    co_return;
  }
  std::string body = "{\"id\":" + json_string(id) + ",\"object\":\"response\",\"deleted\":true}";
  co_await respond_json(exchange, std::move(body));
}

asio::awaitable<void> cancel_response(Exchange& exchange, Service& service) {
  const auto found = service.responses.cancel(tenant_of(exchange), exchange.request().path_args.at(0));
  if (!found) {
    co_await respond_not_found(exchange);
    co_return;
  }
  if (!found->background) {
    HttpResponse response = error_response(
        {.message =
             "Only a response with \"background\": true can be cancelled: to end another, close its connection."});
    co_await exchange.respond(std::move(response));
    co_return;
  }
  co_await respond_json(exchange, found->body);
}

asio::awaitable<void> list_response_input(Exchange& exchange, Service& service) {
  const auto found = find_response(exchange, service);
  if (!found) {
    co_await respond_not_found(exchange);
    co_return;
  }
  const auto page = parse_input_page(exchange.request().query);
  BodyOrError body;
  if (const auto* error = std::get_if<ApiError>(&page)) {
    body = *error;
  } else {
    // As long as a body may be: not on an I/O thread.
    std::function<BodyOrError()> work = [found, asked = std::get<InputPage>(page)] {
      return input_items_body(*found, asked);
    };
    body = co_await on_text_thread(service, std::move(work));
  }
  if (const auto* error = std::get_if<ApiError>(&body)) {
    HttpResponse response = error_response(*error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  co_await respond_json(exchange, std::get<std::string>(std::move(body)));
}

}  // namespace twostroke::openai
