#include "server/openai/chat_format.h"

#include "server/openai/json.h"
#include "server/openai/logprobs.h"

namespace twostroke::openai {

ChatFormat::ChatFormat(const Tokenizer& tokenizer, const std::string& model, const GenerationOptions& options)
    : tokenizer_(tokenizer),
      logprobs_(options.sampling.logprobs >= 0),
      include_usage_(options.include_usage),
      id_(new_id("chatcmpl-")),
      created_(unix_seconds()),
      model_json_(json_string(model)),
      choices_(options.n) {}

void ChatFormat::append_chunk(std::string& out, uint32_t choice, const std::string& delta, const std::string& logprobs,
                              const char* finish_reason) const {
  out += "data: {\"id\":\"" + id_ + "\",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(created_) +
         ",\"model\":" + model_json_ + ",\"choices\":[{\"index\":" + std::to_string(choice) + ",\"delta\":{" + delta +
         "},\"logprobs\":" + (logprobs.empty() ? "null" : "{\"content\":[" + logprobs + "],\"refusal\":null}") +
         ",\"finish_reason\":" + (finish_reason == nullptr ? "null" : '"' + std::string(finish_reason) + '"') + "}]" +
         (include_usage_ ? ",\"usage\":null" : "") + "}\n\n";
}

void ChatFormat::begin(const Usage& /*usage*/, std::string& out) {
  for (uint32_t choice = 0; choice < choices_.size(); ++choice) {
    append_chunk(out, choice, "\"role\":\"assistant\",\"content\":\"\"", "", nullptr);
  }
}

void ChatFormat::piece(const Piece& piece, std::string& out) {
  const std::string logprobs = logprobs_ ? logprob_entries(tokenizer_, piece.entries) : "";
  if (!piece.text.empty() || !logprobs.empty()) {
    append_chunk(out, piece.choice, "\"content\":" + json_string(piece.text), logprobs, nullptr);
  }
  if (piece.finished) append_chunk(out, piece.choice, "", "", finish_reason_text(*piece.finished));
}

void ChatFormat::usage(const Usage& usage, std::string& out) {
  out += "data: {\"id\":\"" + id_ + "\",\"object\":\"chat.completion.chunk\",\"created\":" + std::to_string(created_) +
         ",\"model\":" + model_json_ + ",\"choices\":[],\"usage\":" + usage_json(usage) + "}\n\n";
}

void ChatFormat::collect(Piece&& piece) {
  Choice& choice = choices_[piece.choice];
  choice.text += piece.text;
  if (logprobs_ && !piece.entries.empty()) {
    if (!choice.logprobs.empty()) choice.logprobs += ',';
    choice.logprobs += logprob_entries(tokenizer_, piece.entries);
  }
  if (piece.finished) choice.finish = *piece.finished;
}

std::string ChatFormat::body(const Usage& usage) {
  std::string out = "{\"id\":\"" + id_ + "\",\"object\":\"chat.completion\",\"created\":" + std::to_string(created_) +
                    ",\"model\":" + model_json_ + ",\"choices\":[";
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    const Choice& choice = choices_[i];
    out += "{\"index\":" + std::to_string(i) +
           ",\"message\":{\"role\":\"assistant\",\"content\":" + json_string(choice.text) +
           ",\"refusal\":null},\"logprobs\":" +
           (logprobs_ ? "{\"content\":[" + choice.logprobs + "],\"refusal\":null}" : "null") + ",\"finish_reason\":\"" +
           finish_reason_text(choice.finish) + "\"}";
  }
  return out + "],\"usage\":" + usage_json(usage) + "}";
}

}  // namespace twostroke::openai
