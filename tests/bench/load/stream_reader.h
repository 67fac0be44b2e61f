// StreamReader: an answer's server-sent events, byte by byte: when text came, how much, and how it ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace twostroke::load {

class StreamReader {
 public:
  // True when these bytes completed at least one event that carries text (or a tool call, or reasoning).
  bool take(std::string_view bytes);

  bool done() const { return done_; }                  // [DONE] came
  const std::string& error() const { return error_; }  // of an error event
  uint32_t prompt_tokens() const { return prompt_tokens_; }
  uint32_t cached_tokens() const { return cached_tokens_; }
  uint32_t output_tokens() const { return output_tokens_; }

 private:
  bool take_event(std::string_view data);

  std::string line_;  // not yet complete
  bool done_ = false;
  std::string error_;
  uint32_t prompt_tokens_ = 0;
  uint32_t cached_tokens_ = 0;
  uint32_t output_tokens_ = 0;
};

}  // namespace twostroke::load
