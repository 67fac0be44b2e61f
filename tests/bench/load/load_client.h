// Sends a plan's requests to an OpenAI server when their time has come, whatever became of those before, and notes when
// each piece of an answer arrived. Works on any server that streams /v1/completions or /v1/chat/completions.
//
// One thread, a connection for each request in flight. Blocking call; errors of single requests are part of the result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/status.h"
#include "tests/bench/load/load_plan.h"
#include "tests/bench/load/prompt_text.h"

namespace twostroke::load {

struct LoadTarget {
  std::string host = "127.0.0.1";
  std::string port = "8000";
  std::string base_path = "/v1";
  std::string model;    // "": the server's first
  std::string api_key;  // "": none
  bool chat = false;    // /chat/completions instead of /completions
  bool ignore_eos =
      true;  // answers have the planned length: servers that know the field (vLLM, SGLang, llama.cpp, this)
  double timeout_seconds = 600;                              // of one request
  std::vector<std::pair<std::string, std::string>> headers;  // with every request
};

// "http://host:port/v1".
Result<LoadTarget> parse_target(const std::string& url);

// What became of one request. Times are seconds since the load's start; pieces that arrive together are one arrival.
struct LoadOutcome {
  double planned_at = 0;
  double sent_at = 0;
  double ended_at = 0;
  std::vector<double> arrivals;  // of pieces of text
  uint32_t prompt_tokens = 0;    // by the server's usage
  uint32_t cached_tokens = 0;
  uint32_t output_tokens = 0;
  int http_status = 0;  // 0: no answer
  std::string error;    // empty: a complete answer

  bool complete() const { return error.empty(); }
};

struct LoadProgress {
  uint64_t sent = 0;
  uint64_t ended = 0;
  uint64_t failed = 0;
};

// Asks the server for its model, and how many tokens the words of prompt_text.h take. Fills target.model.
Result<TextScale> calibrate(LoadTarget& target);

// One outcome for each planned request, in the plan's order. `progress` is called about once a second, and may be
// empty.
std::vector<LoadOutcome> run_load(const LoadTarget& target, const std::vector<PlannedRequest>& plan,
                                  const TextScale& scale, const std::function<void(const LoadProgress&)>& progress);

}  // namespace twostroke::load
