// AnswerFormat and answer(): how the pieces of a Generation leave the server, streamed or whole.
//
// The order of a stream: a beginning for each choice (chat), pieces, one finish_reason per choice, usage when asked
// for, "data: [DONE]". A fault in mid-stream is an error event, then [DONE]; one that comes before anything else is an
// answer with its own status, as without streaming: the stream begins with the first news, or after
// ServiceLimits::keep_alive of silence. From then on silence is bridged by bare SSE comments (":" and an empty line),
// so that proxies keep the connection. The whole answer is the fold of the same pieces, and bounded by
// ServiceLimits::whole_answer_bytes_max. Protocols that speak of these things in other words say so in their
// AnswerFormat.
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
  // Of the answer, as the client sees it.
  virtual const std::string& id() const = 0;
  // Before anything else: what the answer shows of its prompts is copied here.
  virtual void prepared(const PreparedPrompts& /*prompts*/) {}
  // Streaming: each appends complete SSE frames ("data: ...\n\n") to `out`.
  virtual void begin(const Usage& usage, std::string& out) = 0;  // `usage` knows the prompt's tokens
  virtual void piece(const Piece& piece, std::string& out) = 0;
  virtual void usage(const Usage& usage, std::string& out) = 0;  // when the client asked for it
  virtual void end(const Usage& usage, std::string& out);        // the last frames: "data: [DONE]" here
  // A fault in mid-stream, and the end: an error event and [DONE] here.
  virtual void fault(const ApiError& error, const Usage& usage, std::string& out);
  virtual std::string_view keep_alive() const { return ":\n\n"; }
  // Whole: collects pieces, then gives the body.
  virtual void collect(Piece&& piece) = 0;
  virtual std::string body(const Usage& usage) = 0;
  // An error in place of an answer.
  virtual http::HttpResponse error_response(const ApiError& error) const { return openai::error_response(error); }
  // Beside those that every answer has.
  virtual http::Headers headers() const { return {}; }
};

// Runs a started generation to its end and sends it. The exchange's disconnect cancels it.
boost::asio::awaitable<void> answer(http::Exchange& exchange, Service& service, Generation& generation,
                                    AnswerFormat& format, const GenerationOptions& options);

int64_t unix_seconds();

// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details": {"cached_tokens"}}
std::string usage_json(const Usage& usage);
// vLLM's stop_reason: the stop string, the stop token's id, or null.
std::string stop_reason_json(const StopReason& reason);
// The member with a comma before it; null for nullptr.
void append_finish_reason(std::string& out, const char* reason);
// "stop" or "length".
const char* finish_reason_text(FinishReason reason);

}  // namespace twostroke::openai
