#include "server/openai/responses/responses_format.h"

#include "server/openai/json.h"
#include "server/openai/logprobs.h"
#include "server/openai/random_id.h"

namespace twostroke::openai {
namespace {

// An object's members without its braces.
std::string members_of(const Json& object) {
  const std::string text = to_text(object);
  return text.substr(1, text.size() - 2);
}

std::string responses_usage(const Usage& usage, uint64_t reasoning_tokens) {
  return "{\"input_tokens\":" + std::to_string(usage.prompt_tokens) +
         ",\"input_tokens_details\":{\"cached_tokens\":" + std::to_string(usage.cached_tokens) +
         ",\"cache_write_tokens\":0},\"output_tokens\":" + std::to_string(usage.completion_tokens) +
         ",\"output_tokens_details\":{\"reasoning_tokens\":" + std::to_string(reasoning_tokens) +
         "},\"total_tokens\":" + std::to_string(usage.prompt_tokens + usage.completion_tokens) + "}";
}

}  // namespace

ResponsesFormat::ResponsesFormat(const Tokenizer& tokenizer, const std::string& model, const ResponsesRequest& request,
                                 OnEnd on_end)
    : tokenizer_(tokenizer),
      logprobs_(request.chat.options.sampling.logprobs >= 0),
      id_(new_id("resp_")),
      created_(unix_seconds()),
      model_json_(json_string(model)),
      echo_(members_of(request.echo)),
      on_end_(std::move(on_end)) {}

std::string ResponsesFormat::response(std::string_view status, const std::string& error, const Usage* usage) const {
  std::string out =
      "{\"id\":\"" + id_ + "\",\"object\":\"response\",\"created_at\":" + std::to_string(created_) + ",\"status\":\"" +
      std::string(status) + "\",\"completed_at\":" + (status == "completed" ? std::to_string(unix_seconds()) : "null") +
      ",\"error\":" + error +
      ",\"incomplete_details\":" + (status == "incomplete" ? "{\"reason\":\"max_output_tokens\"}" : "null") +
      ",\"model\":" + model_json_ + ",\"output\":[";
  for (size_t i = 0; i < done_.size(); ++i) {
    if (i > 0) out += ',';
    out += done_[i];
  }
  return out + "],\"usage\":" + (usage == nullptr ? "null" : responses_usage(*usage, reasoning_tokens_)) + "," + echo_ +
         "}";
}

std::string ResponsesFormat::unfinished(std::string_view status) const { return response(status, "null", nullptr); }

std::string ResponsesFormat::failed(const ApiError& error, const Usage& usage) const {
  return response("failed", "{\"code\":\"server_error\",\"message\":" + json_string(error.message) + "}", &usage);
}

void ResponsesFormat::event(const std::string& type, const std::string& members, std::string* out) {
  if (out == nullptr) return;
  *out += "event: " + type + "\ndata: {\"type\":\"" + type +
          "\",\"sequence_number\":" + std::to_string(sequence_number_++) + "," + members + "}\n\n";
}

std::string ResponsesFormat::place() const {
  return "\"item_id\":\"" + item_.id + "\",\"output_index\":" + std::to_string(done_.size()) + "," +
         (item_.kind == Kind::kCall ? "" : "\"content_index\":0,");
}

std::string ResponsesFormat::part_json() const {
  if (item_.kind == Kind::kReasoning) return "{\"type\":\"reasoning_text\",\"text\":" + json_string(item_.text) + "}";
  return "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[" + item_.logprobs +
         "],\"text\":" + json_string(item_.text) + "}";
}

// An item that has just been opened has no content part yet, and no status but "in_progress".
std::string ResponsesFormat::item_json(const char* status) const {
  const std::string head = "{\"id\":\"" + item_.id + "\",\"status\":\"" + status + "\",";
  const std::string content = std::string_view(status) == "in_progress" ? "[]" : "[" + part_json() + "]";
  switch (item_.kind) {
    case Kind::kReasoning:
      return head + "\"type\":\"reasoning\",\"summary\":[],\"content\":" + content + "}";
    case Kind::kCall:
      return head + "\"type\":\"function_call\",\"call_id\":" + json_string(item_.call_id) +
             ",\"name\":" + json_string(item_.name) + ",\"arguments\":" + json_string(item_.text) + "}";
    default:
      return head + "\"type\":\"message\",\"role\":\"assistant\",\"content\":" + content + "}";
  }
}

// Ends the open item and opens another.
void ResponsesFormat::open(Item item, std::string* out) {
  close("completed", out);
  item.id = new_id(item.kind == Kind::kReasoning ? "rs_" : item.kind == Kind::kCall ? "fc_" : "msg_");
  item_ = std::move(item);
  if (out == nullptr) return;
  event("response.output_item.added",
        "\"output_index\":" + std::to_string(done_.size()) + ",\"item\":" + item_json("in_progress"), out);
  if (item_.kind != Kind::kCall) event("response.content_part.added", place() + "\"part\":" + part_json(), out);
}

void ResponsesFormat::close(const char* status, std::string* out) {
  if (item_.kind == Kind::kNone) return;
  if (out != nullptr) {
    switch (item_.kind) {
      case Kind::kReasoning:
        event("response.reasoning_text.done", place() + "\"text\":" + json_string(item_.text), out);
        event("response.content_part.done", place() + "\"part\":" + part_json(), out);
        break;
      case Kind::kCall:
        event("response.function_call_arguments.done",
              place() + "\"name\":" + json_string(item_.name) + ",\"arguments\":" + json_string(item_.text), out);
        break;
      default:
        event("response.output_text.done",
              place() + "\"text\":" + json_string(item_.text) + ",\"logprobs\":[" + item_.logprobs + "]", out);
        event("response.content_part.done", place() + "\"part\":" + part_json(), out);
    }
  }
  const std::string json = item_json(status);
  event("response.output_item.done", "\"output_index\":" + std::to_string(done_.size()) + ",\"item\":" + json, out);
  done_.push_back(json);
  if (item_.kind == Kind::kReasoning) reasoning_ += item_.text;
  if (item_.kind == Kind::kMessage) content_ += item_.text;
  if (item_.kind == Kind::kCall) {
    calls_.push_back(
        {{"id", item_.call_id}, {"type", "function"}, {"function", {{"name", item_.name}, {"arguments", item_.text}}}});
  }
  item_ = {};
}

void ResponsesFormat::add_text(Kind kind, const std::string& text, std::string* out) {
  if (item_.kind != kind) open({.kind = kind}, out);
  item_.text += text;
  const bool reasoning = kind == Kind::kReasoning;
  const std::string logprobs = reasoning ? "" : ",\"logprobs\":[" + new_logprobs_ + "]";
  if (out != nullptr) {
    event(reasoning ? "response.reasoning_text.delta" : "response.output_text.delta",
          place() + "\"delta\":" + json_string(text) + logprobs, out);
  }
  if (reasoning || new_logprobs_.empty()) return;
  if (!item_.logprobs.empty()) item_.logprobs += ',';
  item_.logprobs += new_logprobs_;
  new_logprobs_.clear();
}

void ResponsesFormat::add_call(const reply::ToolCallDelta& delta, std::string* out) {
  if (delta.begins) open({.kind = Kind::kCall, .call_id = delta.id, .name = delta.name}, out);
  if (delta.arguments.empty()) return;
  item_.text += delta.arguments;
  if (out == nullptr) return;
  event("response.function_call_arguments.delta", place() + "\"delta\":" + json_string(delta.arguments), out);
}

void ResponsesFormat::take(const Piece& piece, std::string* out) {
  if (!piece.reasoning.empty()) {
    add_text(Kind::kReasoning, piece.reasoning, out);
    reasoning_tokens_ += piece.usage.completion_tokens - completion_tokens_;
  }
  completion_tokens_ = piece.usage.completion_tokens;
  // What was drawn for reasoning and calls has no place in a message.
  if (logprobs_ && !piece.entries.empty() && piece.reasoning.empty() && piece.tool_calls.empty()) {
    if (!new_logprobs_.empty()) new_logprobs_ += ',';
    new_logprobs_ += logprob_entries(tokenizer_, piece.entries);
  }
  if (!piece.text.empty()) add_text(Kind::kMessage, piece.text, out);
  for (const reply::ToolCallDelta& delta : piece.tool_calls) add_call(delta, out);
  if (piece.finished) finish_ = *piece.finished;
}

std::string ResponsesFormat::finish(const Usage& usage, std::string* out) {
  // Clients look for a message: an answer without any text has an empty one.
  if (item_.kind == Kind::kNone && done_.empty()) open({.kind = Kind::kMessage}, out);
  const char* status = finish_ == FinishReason::kLength ? "incomplete" : "completed";
  close(status, out);
  std::string whole = response(status, "null", &usage);
  if (on_end_) on_end_(whole, assistant_message());
  return whole;
}

Json ResponsesFormat::assistant_message() const {
  Json message = {{"role", "assistant"}, {"content", nullptr}};
  if (!content_.empty() || calls_.empty()) message["content"] = content_;
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  if (calls_.empty()) return message;
  message["tool_calls"] = calls_;
  JsonGuard guard(kJsonDepthMax);
  for (Json& call : message["tool_calls"]) {
    Json& arguments = call["function"]["arguments"];
    Status cost;
    if (auto parsed = parse_inner_object(arguments.get_ref<const std::string&>(), guard, cost)) {
      arguments = std::move(*parsed);
    }
  }
  return message;
}

void ResponsesFormat::begin(const Usage& /*usage*/, std::string& out) {
  event("response.created", "\"response\":" + unfinished("in_progress"), &out);
  event("response.in_progress", "\"response\":" + unfinished("in_progress"), &out);
}

void ResponsesFormat::piece(const Piece& piece, std::string& out) { take(piece, &out); }

void ResponsesFormat::usage(const Usage& /*usage*/, std::string& /*out*/) {}  // part of the response object

void ResponsesFormat::end(const Usage& usage, std::string& out) {
  const std::string whole = finish(usage, &out);
  event(finish_ == FinishReason::kLength ? "response.incomplete" : "response.completed", "\"response\":" + whole, &out);
}

void ResponsesFormat::fault(const ApiError& error, const Usage& usage, std::string& out) {
  close("incomplete", &out);
  event("response.failed", "\"response\":" + failed(error, usage), &out);
}

void ResponsesFormat::collect(Piece&& piece) { take(piece, nullptr); }

std::string ResponsesFormat::body(const Usage& usage) { return finish(usage, nullptr); }

}  // namespace twostroke::openai
