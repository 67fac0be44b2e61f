// CompletionFormat: text_completion, streamed and whole.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/openai/answer.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

class CompletionFormat final : public AnswerFormat {
 public:
  // `choices`: prompts times n. `echo`: each choice begins with its prompt.
  CompletionFormat(const Tokenizer& tokenizer, const std::string& model, const GenerationOptions& options,
                   size_t choices, bool echo = false);

  const std::string& id() const override { return id_; }
  void prepared(const PreparedPrompts& prompts) override;
  void begin(const Usage& usage, std::string& out) override;
  void piece(const Piece& piece, std::string& out) override;
  void usage(const Usage& usage, std::string& out) override;
  void collect(Piece&& piece) override;
  std::string body(const Usage& usage) override;

 private:
  struct Choice {
    std::string text;       // with the prompt's before it when that is asked for
    size_t echo_bytes = 0;  // of the prompt
    std::vector<TokenEntry> entries;
    std::shared_ptr<const std::vector<TokenScore>> prompt_scores;
    std::vector<TokenId> tokens;
    FinishReason finish = FinishReason::kStop;
    StopReason stop_reason;
    // Where the text so far ends, for text_offset, which counts characters.
    size_t counted_bytes = 0;
    size_t counted_characters = 0;
  };
  // `logprobs`: "" is null. `more`: further members of the choice, each with a comma before it.
  void append_chunk(std::string& out, uint32_t choice, std::string_view text, std::string_view logprobs,
                    std::string_view more, const char* finish_reason, const Usage& usage) const;
  // The columns of {"tokens", "token_logprobs", "top_logprobs", "text_offset"}, comma-separated.
  struct Columns {
    std::string tokens, logprobs, tops, offsets;
  };
  // A token whose text begins `begin` bytes into the choice's; `choice.text` holds the text at least so far. `score` is
  // null for the first token of a prompt.
  void append_token(Choice& choice, TokenId token, const TokenScore* score, size_t begin, Columns& columns) const;
  void append_prompt(Choice& choice, size_t index, Columns& columns) const;
  void append_entries(Choice& choice, const std::vector<TokenEntry>& entries, Columns& columns) const;
  std::string logprobs_json(const Columns& columns) const;

  const Tokenizer& tokenizer_;
  const GenerationOptions options_;
  const bool echo_;
  const std::string id_;
  const std::string head_;   // of every chunk and of the body, up to the choices
  PreparedPrompts prompts_;  // tokens where the answer shows them or their log-probabilities; texts with `echo`
  std::vector<Choice> choices_;
};

}  // namespace twostroke::openai
