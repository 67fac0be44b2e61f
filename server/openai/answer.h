// AnswerFormat and answer(): how the pieces of a Generation leave the server, streamed or whole.
//
// The order of a stream: a beginning for each choice (chat), pieces, one finish_reason per choice, usage when asked
// for, "data: [DONE]". A fault in mid-stream is an error event, then [DONE]. Silence is bridged by bare SSE comments
// (":" and an empty line) from acceptance on, so that proxies keep the connection. The whole answer is the fold of the
// same pieces.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <string_view>

#include "server/http/exchange.h"
#include "server/openai/generation.h"

namespace twostroke::openai {

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // Streaming: each appends complete SSE frames ("data: ...\n\n") to `out`.
  virtual void begin(std::string& out) = 0;
  virtual void piece(const Piece& piece, std::string& out) = 0;
  virtual void usage(const Usage& usage, std::string& out) = 0;
  // Whole: collects pieces, then gives the body.
  virtual void collect(Piece&& piece) = 0;
  virtual std::string body(const Usage& usage) = 0;
};

// Runs a started generation to its end and sends it. The exchange's disconnect cancels it.
boost::asio::awaitable<void> answer(http::Exchange& exchange, Service& service, Generation& generation,
                                    AnswerFormat& format, const GenerationOptions& options);

// "chatcmpl-" and the like, with 24 random characters.
std::string new_id(std::string_view prefix);
int64_t unix_seconds();

// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details": {"cached_tokens"}}
std::string usage_json(const Usage& usage);
// "stop" or "length".
const char* finish_reason_text(FinishReason reason);

}  // namespace twostroke::openai
