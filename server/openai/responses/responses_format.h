// ResponsesFormat: a response object and the events that build it.
//
// An answer is a list of items: reasoning, messages, function calls, in the order in which the model makes them. One
// item is open at a time; its end is known when another begins or the answer ends. Both ways of answering run through
// the same steps, so that the whole answer is what the events add up to.
//
// Event types and their members: openai-python 3.57.0, types/responses. Streams have no "[DONE]".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/responses/responses_request.h"
#include "server/text/tokenizer.h"

namespace twostroke::openai {

class ResponsesFormat final : public AnswerFormat {
 public:
  // What a finished response leaves: the response object, and the assistant's message as a later chat request has it.
  using OnEnd = std::function<void(const std::string& response, const Json& message)>;

  // `on_end` (maybe null) runs before the last event or the whole answer leaves; not after a fault.
  ResponsesFormat(const Tokenizer& tokenizer, const std::string& model, const ResponsesRequest& request, OnEnd on_end);

  const std::string& id() const override { return id_; }
  // The response object without output: "in_progress", "cancelled", ...
  std::string unfinished(std::string_view status) const;
  // The response object of an answer that a fault ended, with what there was of it.
  std::string failed(const ApiError& error, const Usage& usage) const;

  void begin(const Usage& usage, std::string& out) override;
  void piece(const Piece& piece, std::string& out) override;
  void usage(const Usage& usage, std::string& out) override;
  void end(const Usage& usage, std::string& out) override;
  void fault(const ApiError& error, const Usage& usage, std::string& out) override;
  void collect(Piece&& piece) override;
  std::string body(const Usage& usage) override;

 private:
  enum class Kind { kNone, kReasoning, kMessage, kCall };
  struct Item {
    Kind kind = Kind::kNone;
    std::string id;
    std::string text;      // so far: the content, or a call's arguments
    std::string logprobs;  // entries, joined by commas
    std::string call_id, name;
  };

  // `out` is nullptr for a whole answer: then only the state moves on.
  void take(const Piece& piece, std::string* out);
  std::string finish(const Usage& usage, std::string* out);
  void open(Item item, std::string* out);
  void close(const char* status, std::string* out);
  void add_text(Kind kind, const std::string& text, std::string* out);
  void add_call(const reply::ToolCallDelta& delta, std::string* out);
  void event(const std::string& type, const std::string& members, std::string* out);
  std::string item_json(const char* status) const;
  std::string part_json() const;
  // "item_id", "output_index" and, of what has content, "content_index", with a comma behind.
  std::string place() const;
  std::string response(std::string_view status, const std::string& error, const Usage* usage) const;
  Json assistant_message() const;

  const Tokenizer& tokenizer_;
  const bool logprobs_;
  const std::string id_;
  const int64_t created_;
  const std::string model_json_;
  const std::string echo_;  // members of the response object, joined by commas
  const OnEnd on_end_;
  uint64_t sequence_number_ = 0;
  std::vector<std::string> done_;  // closed items, as JSON
  Item item_;                      // the open one
  std::string new_logprobs_;       // entries whose text has not gone out yet
  std::string content_, reasoning_;
  Json calls_ = Json::array();
  uint64_t completion_tokens_ = 0;  // up to the last piece
  uint64_t reasoning_tokens_ = 0;   // of the pieces that brought reasoning
  FinishReason finish_ = FinishReason::kStop;
};

}  // namespace twostroke::openai
