// CompletionFormat: text_completion, streamed and whole.
#pragma once

#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

class CompletionFormat final : public AnswerFormat {
 public:
  // `choices`: prompts times n.
  CompletionFormat(const Tokenizer& tokenizer, const std::string& model, const GenerationOptions& options,
                   size_t choices);

  void begin(const Usage& usage, std::string& out) override;
  void piece(const Piece& piece, std::string& out) override;
  void usage(const Usage& usage, std::string& out) override;
  void collect(Piece&& piece) override;
  std::string body(const Usage& usage) override;

 private:
  struct Choice {
    std::string text;
    std::vector<TokenEntry> entries;
    FinishReason finish = FinishReason::kStop;
    // Where the text so far ends, for text_offset, which counts characters.
    size_t counted_bytes = 0;
    size_t counted_characters = 0;
  };
  std::string head() const;
  // {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; `choice.text` holds the text up to the entries' last
  // one.
  std::string logprobs_json(Choice& choice, const std::vector<TokenEntry>& entries) const;

  const Tokenizer& tokenizer_;
  const int32_t logprobs_;
  const bool include_usage_;
  const std::string id_;
  const int64_t created_;
  const std::string model_json_;
  std::vector<Choice> choices_;
};

}  // namespace twostroke::openai
