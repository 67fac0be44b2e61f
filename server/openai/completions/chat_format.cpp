#include "server/openai/completions/chat_format.h"

#include "server/openai/json.h"
#include "server/openai/logprobs.h"
#include "server/openai/random_id.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {
namespace {

// The delta with which a call begins: all that is said once.
std::string call_head(const reply::ToolCallDelta& call) {
  return "\"tool_calls\":[{\"index\":" + std::to_string(call.index) + ",\"id\":" + json_string(call.id) +
         ",\"type\":\"function\",\"function\":{\"name\":" + json_string(call.name) + ",\"arguments\":\"\"}}]";
}

std::string call_arguments(const reply::ToolCallDelta& call) {
  return "\"tool_calls\":[{\"index\":" + std::to_string(call.index) +
         ",\"function\":{\"arguments\":" + json_string(call.arguments) + "}}]";
}

// A choice that called and came to its own end waits for the results.
const char* chat_finish_reason(FinishReason reason, bool called) {
  return called && reason == FinishReason::kStop ? "tool_calls" : finish_reason_text(reason);
}

}  // namespace

ChatFormat::ChatFormat(const Tokenizer& tokenizer, const std::string& model, const GenerationOptions& options,
                       std::string echo)
    : tokenizer_(tokenizer),
      options_(options),
      echo_(std::move(echo)),
      logprobs_(options.sampling.logprobs >= 0),
      id_(new_id("chatcmpl-")),
      created_(unix_seconds()),
      model_json_(json_string(model)),
      chunk_begin_("data: " + head("chat.completion.chunk") + ",\"choices\":[{\"index\":"),
      choices_(options.n) {
  for (Choice& choice : choices_) choice.text = echo_;
}

void ChatFormat::prepared(const PreparedPrompts& prompts) {
  if (options_.return_token_ids || options_.prompt_logprobs >= 0) prompt_ = prompts.tokens.front();
}

std::string ChatFormat::head(const char* object) const {
  return "{\"id\":\"" + id_ + "\",\"object\":\"" + object + "\",\"created\":" + std::to_string(created_) +
         ",\"model\":" + model_json_;
}

// Appends only, like close_choice(): this is done for every token.
void ChatFormat::open_chunk(std::string& out, uint32_t choice) const {
  out += chunk_begin_;
  out += std::to_string(choice);
  out += ",\"delta\":{";
}

void ChatFormat::close_choice(std::string& out, std::string& logprobs, std::string& more, const char* finish_reason,
                              const Usage& usage) const {
  out += "},\"logprobs\":";
  if (logprobs.empty()) {
    out += "null";
  } else {
    out += "{\"content\":[";
    out += logprobs;
    out += "],\"refusal\":null}";
  }
  out += more;
  append_finish_reason(out, finish_reason);
  out += "}]";
  if (options_.include_usage) out += ",\"usage\":" + (options_.continuous_usage ? usage_json(usage) : "null");
  logprobs.clear();
  more.clear();
}

void ChatFormat::begin(const Usage& usage, std::string& out) {
  std::string none;
  for (uint32_t choice = 0; choice < choices_.size(); ++choice) {
    open_chunk(out, choice);
    out += R"("role":"assistant","content":"")";
    close_choice(out, none, none, nullptr, usage);
    if (options_.return_token_ids) out += ",\"prompt_token_ids\":" + token_list_json(prompt_);
    out += "}\n\n";
    if (echo_.empty()) continue;
    open_chunk(out, choice);
    out += "\"content\":" + json_string(echo_);
    close_choice(out, none, none, nullptr, usage);
    out += "}\n\n";
  }
}

void ChatFormat::piece(const Piece& piece, std::string& out) {
  std::string logprobs = logprobs_ ? logprob_entries(tokenizer_, piece.entries) : "";
  std::string more = options_.return_token_ids ? ",\"token_ids\":" + token_list_json(piece.tokens) : "";
  const auto close = [&](const char* finish_reason) {
    close_choice(out, logprobs, more, finish_reason, piece.usage);
    out += "}\n\n";
  };
  const auto chunk = [&](std::string_view delta, const char* finish_reason = nullptr) {
    open_chunk(out, piece.choice);
    out += delta;
    close(finish_reason);
  };
  const auto text_chunk = [&](std::string_view name, std::string_view text) {
    if (text.empty()) return;
    open_chunk(out, piece.choice);
    out += name;
    append_json_string(out, text);
    close(nullptr);
  };
  text_chunk("\"reasoning_content\":", piece.reasoning);
  text_chunk("\"content\":", piece.text);
  std::vector<Call>& calls = choices_[piece.choice].calls;
  for (const reply::ToolCallDelta& call : piece.tool_calls) {
    if (call.begins) {
      calls.emplace_back();
      chunk(call_head(call));
    }
    if (!call.arguments.empty()) chunk(call_arguments(call));
  }
  // Tokens whose text no client sees, or not yet.
  if (!logprobs.empty()) chunk("");
  if (!piece.finished) return;
  more += ",\"stop_reason\":" + stop_reason_json(piece.stop_reason);
  chunk("", chat_finish_reason(*piece.finished, !calls.empty()));
}

void ChatFormat::usage(const Usage& usage, std::string& out) {
  out += "data: " + head("chat.completion.chunk") + ",\"choices\":[],\"usage\":" + usage_json(usage) + "}\n\n";
}

void ChatFormat::collect(Piece&& piece) {
  Choice& choice = choices_[piece.choice];
  choice.text += piece.text;
  choice.reasoning += piece.reasoning;
  for (reply::ToolCallDelta& call : piece.tool_calls) {
    if (call.begins) choice.calls.push_back({std::move(call.id), std::move(call.name), ""});
    choice.calls.back().arguments += call.arguments;
  }
  if (logprobs_ && !piece.entries.empty()) {
    if (!choice.logprobs.empty()) choice.logprobs += ',';
    choice.logprobs += logprob_entries(tokenizer_, piece.entries);
  }
  choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  if (piece.prompt_scores != nullptr)
    prompt_logprobs_ = prompt_logprobs_json(tokenizer_, prompt_, *piece.prompt_scores);
  if (!piece.finished) return;
  choice.finish = *piece.finished;
  choice.stop_reason = std::move(piece.stop_reason);
}

std::string ChatFormat::message_json(const Choice& choice) const {
  const bool calls_alone = choice.text.empty() && !choice.calls.empty();
  std::string out =
      R"({"role":"assistant","content":)" + (calls_alone ? "null" : json_string(choice.text)) + ",\"refusal\":null";
  if (!choice.reasoning.empty()) out += ",\"reasoning_content\":" + json_string(choice.reasoning);
  if (!choice.calls.empty()) {
    out += ",\"tool_calls\":[";
    for (const Call& call : choice.calls) {
      if (out.back() != '[') out += ',';
      out += "{\"id\":" + json_string(call.id) + R"(,"type":"function","function":{"name":)" + json_string(call.name) +
             ",\"arguments\":" + json_string(call.arguments) + "}}";
    }
    out += ']';
  }
  return out + '}';
}

std::string ChatFormat::body(const Usage& usage) {
  std::string out = head("chat.completion") + ",\"choices\":[";
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    const Choice& choice = choices_[i];
    out += "{\"index\":" + std::to_string(i) + ",\"message\":" + message_json(choice) +
           ",\"logprobs\":" + (logprobs_ ? "{\"content\":[" + choice.logprobs + "],\"refusal\":null}" : "null") +
           ",\"finish_reason\":\"" + chat_finish_reason(choice.finish, !choice.calls.empty()) +
           "\",\"stop_reason\":" + stop_reason_json(choice.stop_reason);
    if (options_.return_token_ids) out += ",\"token_ids\":" + token_list_json(choice.tokens);
    out += '}';
  }
  out += "],\"usage\":" + usage_json(usage);
  if (options_.return_token_ids) out += ",\"prompt_token_ids\":" + token_list_json(prompt_);
  if (options_.prompt_logprobs >= 0) out += ",\"prompt_logprobs\":" + prompt_logprobs_;
  return out + '}';
}

}  // namespace twostroke::openai
