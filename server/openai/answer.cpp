#include "server/openai/answer.h"

#include "server/openai/json.h"

namespace twostroke::openai {

namespace asio = boost::asio;

namespace {

// What a stream keeps of its buffer for the next events, once those that a slow client let gather have gone.
constexpr size_t kEventsBytesKept = 4096;

asio::awaitable<void> stream_answer(http::Exchange& exchange, Service& service, Generation& generation,
                                    AnswerFormat& format, const GenerationOptions& options) {
  const Usage usage_at_begin = generation.usage();
  Batch batch = co_await generation.next(service.limits.keep_alive);
  if (batch.gone) co_return;
  if (batch.error && batch.pieces.empty()) {
    http::HttpResponse response = format.error_response(*batch.error);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  http::HttpResponse head{.status = 200, .content_type = "text/event-stream", .headers = format.headers()};
  bool connected = co_await exchange.begin_stream(std::move(head));
  std::string out;
  format.begin(usage_at_begin, out);
  while (connected) {
    for (const Piece& piece : batch.pieces) format.piece(piece, out);
    if (batch.error) {
      format.fault(*batch.error, generation.usage(), out);
    } else if (batch.ended) {
      if (options.include_usage) format.usage(generation.usage(), out);
      format.end(generation.usage(), out);
    } else if (batch.silent) {
      out += format.keep_alive();
    }
    if (!out.empty()) connected = co_await exchange.write(out);
    out.clear();
    if (out.capacity() > kEventsBytesKept) out.shrink_to_fit();
    if (!connected) break;
    if (batch.ended) {
      co_await exchange.end_stream();
      co_return;
    }
    Batch next = co_await generation.next(service.limits.keep_alive);
    if (next.gone) break;
    batch = std::move(next);
  }
  generation.abandon();
}

asio::awaitable<void> whole_answer(http::Exchange& exchange, const Service& service, Generation& generation,
                                   AnswerFormat& format) {
  size_t bytes = 0;
  while (true) {
    Batch batch = co_await generation.next(std::chrono::milliseconds(0));
    if (batch.gone) co_return;
    for (const Piece& piece : batch.pieces) bytes += piece_bytes(piece);
    if (!batch.error && bytes > service.limits.whole_answer_bytes_max) {
      generation.abandon();
      batch.error = answer_too_large(service.limits.whole_answer_bytes_max);
    }
    if (batch.error) {
      http::HttpResponse response = format.error_response(*batch.error);
      co_await exchange.respond(std::move(response));
      co_return;
    }
    for (Piece& piece : batch.pieces) format.collect(std::move(piece));
    if (batch.ended) break;
  }
  http::HttpResponse response;
  response.body = format.body(generation.usage());
  response.headers = format.headers();
  co_await exchange.respond(std::move(response));
}

}  // namespace

void AnswerFormat::end(const Usage& /*usage*/, std::string& out) { out += "data: [DONE]\n\n"; }

void AnswerFormat::fault(const ApiError& error, const Usage& usage, std::string& out) {
  out += "data: " + error_json(error) + "\n\n";
  end(usage, out);
}

asio::awaitable<void> answer(http::Exchange& exchange, Service& service, Generation& generation, AnswerFormat& format,
                             const GenerationOptions& options) {
  exchange.on_disconnect([&generation] { generation.abandon(); });
  if (options.stream) {
    co_await stream_answer(exchange, service, generation, format, options);
  } else {
    co_await whole_answer(exchange, service, generation, format);
  }
  exchange.on_disconnect(nullptr);
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string usage_json(const Usage& usage) {
  return "{\"prompt_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"completion_tokens\":" + std::to_string(usage.completion_tokens) +
         ",\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.completion_tokens) +
         ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) + "}}";
}

std::string stop_reason_json(const StopReason& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) return json_string(*text);
  if (const auto* token = std::get_if<TokenId>(&reason)) return std::to_string(*token);
  return "null";
}

void append_finish_reason(std::string& out, const char* reason) {
  out += ",\"finish_reason\":";
  if (reason == nullptr) {
    out += "null";
    return;
  }
  out += '"';
  out += reason;
  out += '"';
}

const char* finish_reason_text(FinishReason reason) { return reason == FinishReason::kStop ? "stop" : "length"; }

}  // namespace twostroke::openai
