// Generation: one client's call on its way through the engine, as a stream of pieces.
//
// It owns the engine requests of the call (one per prompt, `n` sequences each), turns their events into text, applies
// stop strings, tells reasoning and tool calls from content, and ends with usage or an error. Every protocol, streaming
// or not, is a mapping of the same pieces.
//
// Thread-safety: used on the exchange's executor only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/event.h"
#include "server/openai/api_error.h"
#include "server/openai/event_queue.h"
#include "server/openai/generation_options.h"
#include "server/openai/prompts.h"
#include "server/openai/service.h"
#include "server/text/reply/reply_parser.h"
#include "server/text/sequence_output.h"

namespace twostroke::openai {

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t cached_tokens = 0;  // known when everything has ended
};

// What ended a choice, beside its FinishReason: the client's own stop string or stop token; neither otherwise.
using StopReason = std::variant<std::monostate, std::string, TokenId>;

// Something new for one choice. Choices count through all prompts: choice = prompt * n + sequence.
struct Piece {
  uint32_t choice = 0;
  std::string text;                              // content
  std::string reasoning;                         // what a ReplyParser found to be reasoning; "" without one
  std::vector<reply::ToolCallDelta> tool_calls;  // likewise; each first delta has an id, made here if need be
  std::vector<TokenEntry> entries;  // log-probabilities, when asked for, of tokens whose text is certain by now,
                                    // whatever a ReplyParser makes of it
  std::vector<TokenId> tokens;  // with return_token_ids: those made since the choice's piece before, stop tokens too
  // With prompt_logprobs: of every token of the choice's prompt but the first. In a piece of its own, before all others
  // of the choice.
  std::shared_ptr<const std::vector<TokenScore>> prompt_scores;
  Usage usage;                           // of the whole call, up to this piece
  std::optional<FinishReason> finished;  // the choice's last piece
  StopReason stop_reason;                // with `finished` only
};

// About how many bytes it takes in an answer.
size_t piece_bytes(const Piece& piece);

struct Batch {
  std::vector<Piece> pieces;
  bool silent = false;            // nothing has happened for as long as next() was to wait
  bool ended = false;             // nothing follows
  std::optional<ApiError> error;  // ended by a fault
  bool gone = false;              // ended because the client is gone: nobody to answer
};

class Generation {
 public:
  // `tenant`: as tenant_salt() says; who shares the prefix cache with it (cache_salt.h).
  Generation(Service& service, boost::asio::any_io_executor executor, const GenerationOptions& options,
             uint64_t tenant);
  ~Generation();  // cancels what still runs
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // Submits one request per prompt. `max_tokens_default` holds where the options name none. `name`: how people will ask
  // about it (RequestIndex). After an error nothing runs.
  std::optional<ApiError> start(PreparedPrompts prepared, uint32_t max_tokens_default, CallName name = {});

  // What has happened since the last call; waits at most `timeout` for something (zero: for ever).
  boost::asio::awaitable<Batch> next(std::chrono::milliseconds timeout);

  // The client went away: cancels everything and wakes next().
  void abandon();

  const Usage& usage() const { return usage_; }  // complete when a Batch has ended without an error

 private:
  struct Choice {
    SequenceOutput output;
    std::unique_ptr<reply::ReplyParser> parser;  // nullptr: all text is content
    std::vector<TokenId> tokens;                 // for the next piece
    TokenId stop_token = -1;                     // the one that came
    bool finished = false;
  };
  struct Part {
    RequestId id = 0;
    bool ended = false;
  };
  void set_stop_tokens(bool parses_reply);
  Request make_request(std::vector<TokenId> prompt, uint32_t index, const PreparedPrompts& prepared,
                       uint32_t max_tokens_default) const;
  bool begins_text(const std::vector<TokenId>& prompt) const;  // nothing but BOS is before the answer
  Choice make_choice(const std::vector<TokenId>& prompt, const std::optional<reply::ParseOptions>& reply) const;
  void take(Event& event, Batch& batch);
  void take_prompt(Event& event, uint32_t index, Batch& batch) const;
  void take_token(Event& event, uint32_t index, Batch& batch);
  void take_finish(uint32_t index, FinishReason reason, Batch& batch);
  void take_end(Part& part, const Event& event, Batch& batch);
  Piece make_piece(uint32_t index, OutputDelta&& delta);
  void read_reply(reply::ReplyDelta&& delta, Piece& piece) const;
  void finish_choice(Piece& piece, FinishReason reason);
  bool is_own_stop(TokenId token) const;      // one of the client's stop_token_ids
  bool ends_generation(TokenId token) const;  // by the model's own rules, as this request sees them
  void cancel_all();

  Service& service_;
  GenerationOptions options_;
  const uint64_t cache_salt_;
  const uint64_t tenant_;  // Tenants::id_of()
  std::shared_ptr<EventQueue> queue_;
  std::shared_ptr<std::vector<RequestId>> ids_;  // shared with the overflow callback
  std::vector<Part> parts_;
  std::vector<Choice> choices_;
  std::vector<TokenId> stop_tokens_;  // sorted; the same list that the engine has
  Usage usage_;
  size_t parts_ended_ = 0;
};

}  // namespace twostroke::openai
