// Generation: one client's call on its way through the engine, as a stream of pieces.
//
// It owns the engine requests of the call (one per prompt, `n` sequences each), turns their events into text, applies
// stop strings, and ends with usage or an error. Every protocol, streaming or not, is a mapping of the same pieces.
//
// Thread-safety: used on the exchange's executor only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/event.h"
#include "server/openai/api_error.h"
#include "server/openai/event_queue.h"
#include "server/openai/generation_options.h"
#include "server/openai/service.h"
#include "server/text/reply/reply_parser.h"
#include "server/text/sequence_output.h"

namespace twostroke::openai {

// Something new for one choice. Choices count through all prompts: choice = prompt * n + sequence.
struct Piece {
  uint32_t choice = 0;
  std::string text;                              // content
  std::string reasoning;                         // what a ReplyParser found to be reasoning; "" without one
  std::vector<reply::ToolCallDelta> tool_calls;  // likewise; each first delta has an id, made here if need be
  std::vector<TokenEntry> entries;               // log-probabilities of the tokens that `text` brought, when asked for
  std::optional<FinishReason> finished;          // the choice's last piece
};

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t cached_tokens = 0;
};

struct Batch {
  std::vector<Piece> pieces;
  bool ended = false;             // nothing follows
  std::optional<ApiError> error;  // ended by a fault
  bool gone = false;              // ended because the client is gone: nobody to answer
};

class Generation {
 public:
  Generation(Service& service, boost::asio::any_io_executor executor, const GenerationOptions& options);
  ~Generation();  // cancels what still runs
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Submits one request per prompt, each non-empty. After an error nothing runs.
  std::optional<ApiError> start(std::vector<std::vector<TokenId>> prompts, uint32_t max_tokens_default);

  // What has happened since the last call; waits at most `timeout` for something (zero: for ever; then a Batch without
  // pieces that has not ended means silence).
  boost::asio::awaitable<Batch> next(std::chrono::milliseconds timeout);

  // The client went away: cancels everything and wakes next().
  void abandon();

  const Usage& usage() const { return usage_; }  // complete when a Batch has ended without an error

 private:
  struct Choice {
    SequenceOutput output;
    bool finished = false;
  };
  struct Part {
    RequestId id = 0;
    bool ended = false;
  };
  void take(Event& event, Batch& batch);
  void take_token(Event& event, uint32_t index, Batch& batch);
  void finish_choice(uint32_t index, FinishReason reason, Batch& batch);
  void take_end(Part& part, const Event& event, Batch& batch);
  void cancel_all();

  Service& service_;
  GenerationOptions options_;
  std::shared_ptr<EventQueue> queue_;
  std::shared_ptr<std::vector<RequestId>> ids_;  // shared with the overflow callback
  std::vector<Part> parts_;
  std::vector<Choice> choices_;
  std::vector<TokenId> stop_tokens_;  // sorted; the same list that the engine has
  Usage usage_;
  size_t parts_ended_ = 0;
};

}  // namespace twostroke::openai
