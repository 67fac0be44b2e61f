#include "server/openai/completions/completion_format.h"

#include <algorithm>

#include "server/openai/json.h"
#include "server/openai/logprobs.h"
#include "server/openai/random_id.h"
#include "server/openai/token_list.h"

namespace twostroke::openai {

CompletionFormat::CompletionFormat(const Tokenizer& tokenizer, const std::string& model,
                                   const GenerationOptions& options, size_t choices, bool echo)
    : tokenizer_(tokenizer),
      options_(options),
      echo_(echo),
      id_(new_id("cmpl-")),
      head_("{\"id\":\"" + id_ + "\",\"object\":\"text_completion\",\"created\":" + std::to_string(unix_seconds()) +
            ",\"model\":" + json_string(model) + ",\"choices\":["),
      choices_(choices) {}

void CompletionFormat::prepared(const PreparedPrompts& prompts) {
  if (options_.return_token_ids || options_.prompt_logprobs >= 0) prompts_.tokens = prompts.tokens;
  if (!echo_) return;
  prompts_.texts = prompts.texts;
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].text = prompts_.texts[i / options_.n];
    choices_[i].echo_bytes = choices_[i].text.size();
  }
}

void CompletionFormat::append_token(Choice& choice, TokenId token, const TokenScore* score, size_t begin,
                                    Columns& columns) const {
  const char* comma = columns.tokens.empty() ? "" : ",";
  const std::string text = json_string(tokenizer_.piece(token, /*special=*/true));
  columns.tokens += comma + text;
  columns.logprobs += comma + (score == nullptr ? "null" : logprob_text(score->logprob));
  if (score == nullptr) {
    columns.tops += std::string(comma) + "null";
  } else {
    // OpenAI's older shape: an object from token text to log-probability, the chosen token always among them.
    std::string top;
    bool has_chosen = false;
    for (const TokenLogprob& candidate : score->top) {
      if (!top.empty()) top += ',';
      top += json_string(tokenizer_.piece(candidate.token, true)) + ':' + logprob_text(candidate.logprob);
      has_chosen = has_chosen || candidate.token == token;
    }
    if (!has_chosen) top += (top.empty() ? "" : ",") + text + ':' + logprob_text(score->logprob);
    columns.tops += comma + ('{' + top + '}');
  }
  const size_t end = std::min(begin, choice.text.size());
  for (; choice.counted_bytes < end; ++choice.counted_bytes) {
    const bool continuation = (static_cast<unsigned char>(choice.text[choice.counted_bytes]) & 0xC0) == 0x80;
    if (!continuation) ++choice.counted_characters;
  }
  columns.offsets += comma + std::to_string(choice.counted_characters);
}

void CompletionFormat::append_prompt(Choice& choice, size_t index, Columns& columns) const {
  const std::vector<TokenId>& prompt = prompts_.tokens[index / options_.n];
  size_t begin = 0;
  for (size_t i = 0; i < prompt.size(); ++i) {
    const bool scored = i > 0 && i <= choice.prompt_scores->size();
    append_token(choice, prompt[i], scored ? &(*choice.prompt_scores)[i - 1] : nullptr, begin, columns);
    begin += tokenizer_.piece(prompt[i], /*special=*/false).size();
  }
}

void CompletionFormat::append_entries(Choice& choice, const std::vector<TokenEntry>& entries, Columns& columns) const {
  for (const TokenEntry& entry : entries) {
    const TokenScore score{.logprob = entry.logprob, .top = entry.top};
    append_token(choice, entry.token, &score, choice.echo_bytes + entry.text_begin, columns);
  }
}

std::string CompletionFormat::logprobs_json(const Columns& columns) const {
  return "{\"tokens\":[" + columns.tokens + "],\"token_logprobs\":[" + columns.logprobs +
         "],\"top_logprobs\":" + (options_.sampling.logprobs == 0 ? "null" : "[" + columns.tops + "]") +
         ",\"text_offset\":[" + columns.offsets + "]}";
}

// Appends only: this is done for every token.
void CompletionFormat::append_chunk(std::string& out, uint32_t choice, std::string_view text, std::string_view logprobs,
                                    std::string_view more, const char* finish_reason, const Usage& usage) const {
  out += "data: ";
  out += head_;
  out += "{\"index\":";
  out += std::to_string(choice);
  out += ",\"text\":";
  append_json_string(out, text);
  out += ",\"logprobs\":";
  out += logprobs.empty() ? "null" : logprobs;
  out += more;
  append_finish_reason(out, finish_reason);
  out += "}]";
  if (options_.include_usage) out += ",\"usage\":" + (options_.continuous_usage ? usage_json(usage) : "null");
  out += "}\n\n";
}

void CompletionFormat::begin(const Usage& usage, std::string& out) {
  // A prompt whose log-probabilities are wanted waits for them.
  const bool echoes_now = echo_ && options_.sampling.logprobs < 0;
  if (!echoes_now && !options_.return_token_ids) return;
  for (uint32_t i = 0; i < choices_.size(); ++i) {
    std::string more;
    if (options_.return_token_ids) more = ",\"prompt_token_ids\":" + token_list_json(prompts_.tokens[i / options_.n]);
    append_chunk(out, i, echoes_now ? choices_[i].text : "", "", more, nullptr, usage);
  }
}

void CompletionFormat::piece(const Piece& piece, std::string& out) {
  Choice& choice = choices_[piece.choice];
  const bool keeps_logprobs = options_.sampling.logprobs >= 0;
  if (piece.prompt_scores != nullptr) {
    if (!echo_ || !keeps_logprobs) return;  // prompt_logprobs are no part of a stream
    choice.prompt_scores = piece.prompt_scores;
    Columns columns;
    append_prompt(choice, piece.choice, columns);
    append_chunk(out, piece.choice, choice.text, logprobs_json(columns), "", nullptr, piece.usage);
    return;
  }
  std::string logprobs;
  if (keeps_logprobs) {
    choice.text += piece.text;  // needed for offsets only
    Columns columns;
    append_entries(choice, piece.entries, columns);
    if (!piece.entries.empty()) logprobs = logprobs_json(columns);
  }
  std::string more;
  if (options_.return_token_ids) more += ",\"token_ids\":" + token_list_json(piece.tokens);
  if (piece.finished) more += ",\"stop_reason\":" + stop_reason_json(piece.stop_reason);
  append_chunk(out, piece.choice, piece.text, logprobs, more,
               piece.finished ? finish_reason_text(*piece.finished) : nullptr, piece.usage);
}

void CompletionFormat::usage(const Usage& usage, std::string& out) {
  out += "data: " + head_ + "],\"usage\":" + usage_json(usage) + "}\n\n";
}

void CompletionFormat::collect(Piece&& piece) {
  Choice& choice = choices_[piece.choice];
  choice.text += piece.text;
  if (piece.prompt_scores != nullptr) choice.prompt_scores = std::move(piece.prompt_scores);
  for (TokenEntry& entry : piece.entries) choice.entries.push_back(std::move(entry));
  choice.tokens.insert(choice.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  if (!piece.finished) return;
  choice.finish = *piece.finished;
  choice.stop_reason = std::move(piece.stop_reason);
}

std::string CompletionFormat::body(const Usage& usage) {
  std::string out = head_;
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) out += ',';
    Choice& choice = choices_[i];
    Columns columns;
    if (echo_ && choice.prompt_scores != nullptr) append_prompt(choice, i, columns);
    append_entries(choice, choice.entries, columns);
    out += "{\"index\":" + std::to_string(i) + ",\"text\":" + json_string(choice.text) +
           ",\"logprobs\":" + (options_.sampling.logprobs < 0 ? "null" : logprobs_json(columns)) +
           ",\"finish_reason\":\"" + finish_reason_text(choice.finish) +
           "\",\"stop_reason\":" + stop_reason_json(choice.stop_reason);
    if (options_.return_token_ids) {
      out += ",\"prompt_token_ids\":" + token_list_json(prompts_.tokens[i / options_.n]) +
             ",\"token_ids\":" + token_list_json(choice.tokens);
    }
    if (options_.prompt_logprobs >= 0) {
      out += ",\"prompt_logprobs\":";
      out += choice.prompt_scores == nullptr
                 ? "null"
                 : prompt_logprobs_json(tokenizer_, prompts_.tokens[i / options_.n], *choice.prompt_scores);
    }
    out += '}';
  }
  return out + "],\"usage\":" + usage_json(usage) + "}";
}

}  // namespace twostroke::openai
