// AnthropicFormat: a message of Anthropic's and the events that build it.
//
// A message is a list of content blocks: thinking, text, tool_use. One block is open at a time. Both ways of answering
// run through the same steps, so that the whole answer is what the events add up to. Events and their members:
// anthropic-sdk-python 2.14.0, types and lib/streaming; its client goes by the `event:` lines.
#pragma once

#include <string>
#include <vector>

#include "server/openai/answer.h"
#include "server/openai/anthropic/anthropic_request.h"

namespace twostroke::openai {

// {"type": "error", "error": {"type", "message"}, "request_id"}, with Anthropic's type for the status.
http::HttpResponse anthropic_error_response(const ApiError& error, const std::string& request_id);

class AnthropicFormat final : public AnswerFormat {
 public:
  AnthropicFormat(const std::string& model, bool shows_thinking, std::string request_id);

  const std::string& id() const override { return id_; }
  void begin(const Usage& usage, std::string& out) override;
  void piece(const Piece& piece, std::string& out) override;
  void usage(const Usage& usage, std::string& out) override;
  void end(const Usage& usage, std::string& out) override;
  void fault(const ApiError& error, const Usage& usage, std::string& out) override;
  std::string_view keep_alive() const override { return "event: ping\ndata: {\"type\":\"ping\"}\n\n"; }
  void collect(Piece&& piece) override;
  std::string body(const Usage& usage) override;
  http::HttpResponse error_response(const ApiError& error) const override;
  http::Headers headers() const override;

 private:
  enum class Kind { kNone, kThinking, kText, kToolUse };
  struct Block {
    Kind kind = Kind::kNone;
    std::string text;  // so far: the thinking, the text, or a call's arguments
    std::string id, name;
  };

  // `out` is nullptr for a whole answer: then only the state moves on.
  void take(const Piece& piece, std::string* out);
  void open(Block block, std::string* out);
  void close(std::string* out);
  void add(Kind kind, const std::string& text, std::string* out);
  std::string index() const;  // "index":N
  std::string block_json(bool empty) const;
  std::string message(const std::string& content, const std::string& stop, const std::string& usage) const;
  std::string stop_members() const;  // "stop_reason" and "stop_sequence"

  const std::string model_json_;
  const bool shows_thinking_;
  const std::string request_id_;
  const std::string id_;
  std::vector<std::string> done_;  // closed blocks, as JSON
  Block block_;                    // the open one
  bool called_ = false;
  FinishReason finish_ = FinishReason::kStop;
  std::string stop_sequence_;  // JSON
};

}  // namespace twostroke::openai
