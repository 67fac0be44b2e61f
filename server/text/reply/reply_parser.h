// ReplyParser: the text of an assistant's turn, as it streams, becomes reasoning, content and tool calls.
//
// What it has given out is never taken back, and nothing is held longer than it must be: exactly the longest suffix
// that may still become a marker. All deltas joined are the fold that a whole answer gives. Output that looks like a
// call and is none (broken JSON, an unknown function) comes out as content, complete: nothing is lost.
//
// Thread-safety: one user at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace twostroke::reply {

// News of one call. A call's first delta has its name and begins it; all of its `arguments`, joined, are one JSON
// object as text.
struct ToolCallDelta {
  uint32_t index = 0;     // calls count from 0 in each turn
  bool begins = false;    // the first of its call
  std::string name;       // with `begins` only, complete
  std::string id;         // with `begins` only: what the model called it; "" where its format has no ids
  std::string arguments;  // appended
};

struct ReplyDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;

  bool empty() const { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

class ReplyParser {
 public:
  virtual ~ReplyParser() = default;
  virtual ReplyDelta push(std::string_view text) = 0;  // valid UTF-8, pieces of any size
  virtual ReplyDelta finish() = 0;                     // the end: what was held back
};

}  // namespace twostroke::reply
