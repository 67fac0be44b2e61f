// ChatFormat: chat.completion and chat.completion.chunk.
#pragma once

#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(const Tokenizer& tokenizer, const std::string& model, const GenerationOptions& options);

  void begin(const Usage& usage, std::string& out) override;
  void piece(const Piece& piece, std::string& out) override;
  void usage(const Usage& usage, std::string& out) override;
  void collect(Piece&& piece) override;
  std::string body(const Usage& usage) override;

 private:
  struct Choice {
    std::string text;
    std::string logprobs;  // entries, joined by commas
    FinishReason finish = FinishReason::kStop;
  };
  void append_chunk(std::string& out, uint32_t choice, const std::string& delta, const std::string& logprobs,
                    const char* finish_reason) const;

  const Tokenizer& tokenizer_;
  const bool logprobs_;
  const bool include_usage_;
  const std::string id_;
  const int64_t created_;
  const std::string model_json_;  // the model's name, as a JSON string
  std::vector<Choice> choices_;
};

}  // namespace twostroke::openai
