#include "server/openai/completion_format.h"

#include <algorithm>

#include "server/openai/json.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {

CompletionFormat::CompletionFormat(const Tokenizer& tokenizer, const std::string& model,
                                   const GenerationOptions& options, size_t choices, bool echo)
    : tokenizer_(tokenizer),
      options_(options),
      echo_(echo),
      id_(new_id("cmpl-")),
      created_(unix_seconds()),
      model_json_(json_string(model)),
      choices_(choices) {}

void CompletionFormat::prepared(const PreparedPrompts& prompts) {
  if (options_.return_token_ids) prompts_.tokens = prompts.tokens;
  if (!echo_) return;
  prompts_.texts = prompts.texts;
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].text = prompts_.texts[i / options_.n];
    choices_[i].echo_bytes = choices_[i].text.size();
  }
}

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
    const size_t end = std::min(choice.echo_bytes + entry.text_begin, choice.text.size());
    for (; choice.counted_bytes < end; ++choice.counted_bytes) {
      const bool continuation = (static_cast<unsigned char>(choice.text[choice.counted_bytes]) & 0xC0) == 0x80;
      if (!continuation) ++choice.counted_characters;
    }
    offsets += comma + std::to_string(choice.counted_characters);
  }
  return "{\"tokens\":[" + tokens + "],\"token_logprobs\":[" + logprobs +
         "],\"top_logprobs\":" + (options_.sampling.logprobs == 0 ? "null" : "[" + tops + "]") + ",\"text_offset\":[" +
         offsets + "]}";
}

void CompletionFormat::append_chunk(std::string& out, uint32_t choice, const std::string& text, const std::string& more,
                                    const char* finish_reason, const Usage& usage) const {
  out += "data: " + head() + "{\"index\":" + std::to_string(choice) + ",\"text\":" + json_string(text) + more +
         ",\"finish_reason\":" + (finish_reason == nullptr ? "null" : '"' + std::string(finish_reason) + '"') + "}]";
  if (options_.include_usage) out += ",\"usage\":" + (options_.continuous_usage ? usage_json(usage) : "null");
  out += "}\n\n";
}

void CompletionFormat::begin(const Usage& usage, std::string& out) {
  if (!echo_ && !options_.return_token_ids) return;
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    std::string more = ",\"logprobs\":null";
    if (options_.return_token_ids) more += ",\"prompt_token_ids\":" + token_list_json(prompts_.tokens[i / options_.n]);
    append_chunk(out, i, choices_[i].text, more, nullptr, usage);
  }
}

void CompletionFormat::piece(const Piece& piece, std::string& out) {
  Choice& choice = choices_[piece.choice];
  const bool keeps_logprobs = options_.sampling.logprobs >= 0;
  if (keeps_logprobs) choice.text += piece.text;  // needed for offsets only
  std::string more = ",\"logprobs\":";
  more += keeps_logprobs && !piece.entries.empty() ? logprobs_json(choice, piece.entries) : "null";
  if (options_.return_token_ids) more += ",\"token_ids\":" + token_list_json(piece.tokens);
  if (piece.finished) more += ",\"stop_reason\":" + stop_reason_json(piece.stop_reason);
  append_chunk(out, piece.choice, piece.text, more, piece.finished ? finish_reason_text(*piece.finished) : nullptr,
               piece.usage);
}

void CompletionFormat::usage(const Usage& usage, std::string& out) {
  out += "data: " + head() + "],\"usage\":" + usage_json(usage) + "}\n\n";
}

void CompletionFormat::collect(Piece&& piece) {
  Choice& choice = choices_[piece.choice];
  choice.text += piece.text;
  for (TokenEntry& entry : piece.entries) choice.entries.push_back(std::move(entry));
  choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  if (!piece.finished) return;
  choice.finish = *piece.finished;
  choice.stop_reason = std::move(piece.stop_reason);
}

std::string CompletionFormat::body(const Usage& usage) {
  std::string out = head();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    Choice& choice = choices_[i];
    out += "{\"index\":" + std::to_string(i) + ",\"text\":" + json_string(choice.text) +
           ",\"logprobs\":" + (options_.sampling.logprobs < 0 ? "null" : logprobs_json(choice, choice.entries)) +
           ",\"finish_reason\":\"" + finish_reason_text(choice.finish) +
           "\",\"stop_reason\":" + stop_reason_json(choice.stop_reason);
    if (options_.return_token_ids) {
      out += ",\"prompt_token_ids\":" + token_list_json(prompts_.tokens[i / options_.n]) +
             ",\"token_ids\":" + token_list_json(choice.tokens);
    }
    out += '}';
  }
  return out + "],\"usage\":" + usage_json(usage) + "}";
}

}  // namespace twostroke::openai
