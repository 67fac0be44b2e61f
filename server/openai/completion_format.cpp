#include "server/openai/completion_format.h"

#include <algorithm>

#include "server/openai/json.h"

namespace twostroke::openai {

CompletionFormat::CompletionFormat(const Tokenizer& tokenizer, const std::string& model,
                                   const GenerationOptions& options, size_t choices)
    : tokenizer_(tokenizer),
      logprobs_(options.sampling.logprobs),
      include_usage_(options.include_usage),
      id_(new_id("cmpl-")),
      created_(unix_seconds()),
      model_json_(json_string(model)),
      choices_(choices) {}

std::string CompletionFormat::head() const {
  return "{\"id\":\"" + id_ + "\",\"object\":\"text_completion\",\"created\":" + std::to_string(created_) +
         ",\"model\":" + model_json_ + ",\"choices\":[";
}

std::string CompletionFormat::logprobs_json(Choice& choice, const std::vector<TokenEntry>& entries) const {
  std::string tokens, logprobs, tops, offsets;
  for (const TokenEntry& entry : entries) {
    const char* comma = tokens.empty() ? "" : ",";
    const std::string text = json_string(tokenizer_.piece(entry.token, /*special=*/true));
    tokens += comma + text;
    logprobs += comma + logprob_text(entry.logprob);
    // OpenAI's older shape: an object from token text to log-probability, the chosen token always among them.
    std::string top;
    bool has_chosen = false;
    for (const TokenLogprob& candidate : entry.top) {
      if (!top.empty()) top += ',';
      top += json_string(tokenizer_.piece(candidate.token, true)) + ':' + logprob_text(candidate.logprob);
      has_chosen = has_chosen || candidate.token == entry.token;
    }
    if (!has_chosen) top += (top.empty() ? "" : ",") + text + ':' + logprob_text(entry.logprob);
    tops += comma + ('{' + top + '}');
    const size_t end = std::min(entry.text_begin, choice.text.size());
    for (; choice.counted_bytes < end; ++choice.counted_bytes) {
      const bool continuation = (static_cast<unsigned char>(choice.text[choice.counted_bytes]) & 0xC0) == 0x80;
      if (!continuation) ++choice.counted_characters;
    }
    offsets += comma + std::to_string(choice.counted_characters);
  }
  return "{\"tokens\":[" + tokens + "],\"token_logprobs\":[" + logprobs +
         "],\"top_logprobs\":" + (logprobs_ == 0 ? "null" : "[" + tops + "]") + ",\"text_offset\":[" + offsets + "]}";
}

void CompletionFormat::begin(const Usage& /*usage*/, std::string& /*out*/) {}

void CompletionFormat::piece(const Piece& piece, std::string& out) {
  Choice& choice = choices_[piece.choice];
  if (logprobs_ >= 0) choice.text += piece.text;  // needed for offsets only
  out +=
      "data: " + head() + "{\"index\":" + std::to_string(piece.choice) + ",\"text\":" + json_string(piece.text) +
      ",\"logprobs\":" + (logprobs_ < 0 || piece.entries.empty() ? "null" : logprobs_json(choice, piece.entries)) +
      ",\"finish_reason\":" + (piece.finished ? '"' + std::string(finish_reason_text(*piece.finished)) + '"' : "null") +
      "}]" + (include_usage_ ? ",\"usage\":null" : "") + "}\n\n";
}

void CompletionFormat::usage(const Usage& usage, std::string& out) {
  out += "data: " + head() + "],\"usage\":" + usage_json(usage) + "}\n\n";
}

void CompletionFormat::collect(Piece&& piece) {
  Choice& choice = choices_[piece.choice];
  choice.text += piece.text;
  for (TokenEntry& entry : piece.entries) choice.entries.push_back(std::move(entry));
  if (piece.finished) choice.finish = *piece.finished;
}

std::string CompletionFormat::body(const Usage& usage) {
  std::string out = head();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    Choice& choice = choices_[i];
    out += "{\"index\":" + std::to_string(i) + ",\"text\":" + json_string(choice.text) +
           ",\"logprobs\":" + (logprobs_ < 0 ? "null" : logprobs_json(choice, choice.entries)) +
           ",\"finish_reason\":\"" + finish_reason_text(choice.finish) + "\"}";
  }
  return out + "],\"usage\":" + usage_json(usage) + "}";
}

}  // namespace twostroke::openai
