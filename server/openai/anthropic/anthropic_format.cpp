#include "server/openai/anthropic/anthropic_format.h"

#include "server/openai/json.h"
#include "server/openai/random_id.h"

namespace twostroke::openai {
namespace {

const char* anthropic_error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string anthropic_error_json(const ApiError& error, const std::string& request_id) {
  return std::string("{\"type\":\"error\",\"error\":{\"type\":\"") + anthropic_error_type(error.status) +
         "\",\"message\":" + json_string(error.message) + "},\"request_id\":" + json_string(request_id) + "}";
}

// What was read from the prefix cache is no part of input_tokens.
std::string anthropic_usage(const Usage& usage) {
  return "{\"input_tokens\":" + std::to_string(usage.prompt_tokens - usage.cached_tokens) +
         ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":" + std::to_string(usage.cached_tokens) +
         ",\"output_tokens\":" + std::to_string(usage.completion_tokens) + "}";
}

void append_event(const std::string& type, const std::string& members, std::string* out) {
  if (out == nullptr) return;
  *out += "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + (members.empty() ? "" : "," + members) + "}\n\n";
}

}  // namespace

http::HttpResponse anthropic_error_response(const ApiError& error, const std::string& request_id) {
  http::HttpResponse response = openai::error_response(error);
  response.body = anthropic_error_json(error, request_id);
  response.headers.emplace_back("request-id", request_id);
  return response;
}

AnthropicFormat::AnthropicFormat(const std::string& model, bool shows_thinking, std::string request_id)
    : model_json_(json_string(model)),
      shows_thinking_(shows_thinking),
      request_id_(std::move(request_id)),
      id_(new_id("msg_")),
      stop_sequence_("null") {}

http::HttpResponse AnthropicFormat::error_response(const ApiError& error) const {
  return anthropic_error_response(error, request_id_);
}

http::Headers AnthropicFormat::headers() const { return {{"request-id", request_id_}}; }

std::string AnthropicFormat::index() const { return "\"index\":" + std::to_string(done_.size()); }

std::string AnthropicFormat::message(const std::string& content, const std::string& stop,
                                     const std::string& usage) const {
  return "{\"id\":\"" + id_ + "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":" + model_json_ +
         ",\"content\":[" + content + "]," + stop + ",\"usage\":" + usage + "}";
}

std::string AnthropicFormat::stop_members() const {
  const char* reason = finish_ == FinishReason::kLength ? "max_tokens"
                       : stop_sequence_ != "null"       ? "stop_sequence"
                       : called_                        ? "tool_use"
                                                        : "end_turn";
  return std::string("\"stop_reason\":\"") + reason + "\",\"stop_sequence\":" + stop_sequence_;
}

// `empty`: as it begins.
std::string AnthropicFormat::block_json(bool empty) const {
  const std::string text = empty ? "" : block_.text;
  switch (block_.kind) {
    case Kind::kThinking:
      return "{\"type\":\"thinking\",\"thinking\":" + json_string(text) + ",\"signature\":\"\"}";
    case Kind::kToolUse: {
      // Arguments that a length limit cut off are no JSON: clients that take the events see what there was of them.
      JsonGuard guard(kJsonDepthMax);
      Status cost;
      const bool whole = !empty && parse_inner_object(text, guard, cost).has_value();
      return "{\"type\":\"tool_use\",\"id\":" + json_string(block_.id) + ",\"name\":" + json_string(block_.name) +
             ",\"input\":" + (whole ? text : "{}") + "}";
    }
    default:
      return "{\"type\":\"text\",\"text\":" + json_string(text) + "}";
  }
}

void AnthropicFormat::open(Block block, std::string* out) {
  close(out);
  block_ = std::move(block);
  if (out != nullptr) append_event("content_block_start", index() + ",\"content_block\":" + block_json(true), out);
}

void AnthropicFormat::close(std::string* out) {
  if (block_.kind == Kind::kNone) return;
  append_event("content_block_stop", index(), out);
  done_.push_back(out == nullptr ? block_json(false) : "");
  block_ = {};
}

void AnthropicFormat::add(Kind kind, const std::string& text, std::string* out) {
  if (block_.kind != kind) open({.kind = kind}, out);
  if (text.empty()) return;
  if (out == nullptr) {
    block_.text += text;
    return;
  }
  const char* delta = kind == Kind::kThinking  ? "{\"type\":\"thinking_delta\",\"thinking\":"
                      : kind == Kind::kToolUse ? "{\"type\":\"input_json_delta\",\"partial_json\":"
                                               : "{\"type\":\"text_delta\",\"text\":";
  append_event("content_block_delta", index() + ",\"delta\":" + delta + json_string(text) + "}", out);
}

void AnthropicFormat::take(const Piece& piece, std::string* out) {
  if (shows_thinking_ && !piece.reasoning.empty()) add(Kind::kThinking, piece.reasoning, out);
  if (!piece.text.empty()) add(Kind::kText, piece.text, out);
  for (const reply::ToolCallDelta& delta : piece.tool_calls) {
    if (delta.begins) open({.kind = Kind::kToolUse, .id = delta.id, .name = delta.name}, out);
    called_ = true;
    add(Kind::kToolUse, delta.arguments, out);
  }
  if (!piece.finished) return;
  finish_ = *piece.finished;
  if (const auto* stop = std::get_if<std::string>(&piece.stop_reason)) stop_sequence_ = json_string(*stop);
  close(out);
}

void AnthropicFormat::begin(const Usage& usage, std::string& out) {
  append_event("message_start",
               "\"message\":" + message("", "\"stop_reason\":null,\"stop_sequence\":null", anthropic_usage(usage)),
               &out);
  out += keep_alive();
}

void AnthropicFormat::piece(const Piece& piece, std::string& out) { take(piece, &out); }

void AnthropicFormat::usage(const Usage& /*usage*/, std::string& /*out*/) {}  // part of message_delta

void AnthropicFormat::end(const Usage& usage, std::string& out) {
  append_event("message_delta", "\"delta\":{" + stop_members() + "},\"usage\":" + anthropic_usage(usage), &out);
  append_event("message_stop", "", &out);
}

void AnthropicFormat::fault(const ApiError& error, const Usage& /*usage*/, std::string& out) {
  out += "event: error\ndata: " + anthropic_error_json(error, request_id_) + "\n\n";
}

void AnthropicFormat::collect(Piece&& piece) { take(piece, nullptr); }

std::string AnthropicFormat::body(const Usage& usage) {
  std::string content;
  for (const std::string& block : done_) content += (content.empty() ? "" : ",") + block;
  return message(content, stop_members(), anthropic_usage(usage));
}

}  // namespace twostroke::openai
