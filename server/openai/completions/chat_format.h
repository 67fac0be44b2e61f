// ChatFormat: chat.completion and chat.completion.chunk.
//
// What the clients need of a stream (the contract's traps): a role once; each tool call's id, type and name once, in a
// delta of their own with empty arguments; an integer index in every call's delta; finish_reason exactly once, in a
// chunk without anything else. Each chunk has news of one kind: reasoning, content, or one call.
#pragma once

#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

class ChatFormat final : public AnswerFormat {
 public:
  // `echo`: text that every choice begins with.
  ChatFormat(const Tokenizer& tokenizer, const std::string& model, const GenerationOptions& options,
             std::string echo = "");

  const std::string& id() const override { return id_; }
  void prepared(const PreparedPrompts& prompts) override;
  void begin(const Usage& usage, std::string& out) override;
  void piece(const Piece& piece, std::string& out) override;
  void usage(const Usage& usage, std::string& out) override;
  void collect(Piece&& piece) override;
  std::string body(const Usage& usage) override;

 private:
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;
  };
  struct Choice {
    std::string text;
    std::string reasoning;
    std::vector<Call> calls;  // when streaming only their number counts
    std::string logprobs;     // entries, joined by commas
    std::vector<TokenId> tokens;
    FinishReason finish = FinishReason::kStop;
    StopReason stop_reason;
  };
  std::string head(const char* object) const;
  // A chunk with one choice: up to its delta's members, and what follows those but for the frame's end, "}" and an
  // empty line. `more` is further members of the choice, each with a comma before it; `logprobs` and `more` are taken:
  // what they say is said once.
  void open_chunk(std::string& out, uint32_t choice) const;
  void close_choice(std::string& out, std::string& logprobs, std::string& more, const char* finish_reason,
                    const Usage& usage) const;
  std::string message_json(const Choice& choice) const;

  const Tokenizer& tokenizer_;
  const GenerationOptions options_;
  const std::string echo_;
  const bool logprobs_;
  const std::string id_;
  const int64_t created_;
  const std::string model_json_;   // the model's name, as a JSON string
  const std::string chunk_begin_;  // of every chunk, up to the choice's index
  std::vector<TokenId> prompt_;    // with return_token_ids or prompt_logprobs
  std::string prompt_logprobs_ = "null";
  std::vector<Choice> choices_;
};

}  // namespace twostroke::openai
