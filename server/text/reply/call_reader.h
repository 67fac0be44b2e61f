// CallReader: reads one call in a given shape, from behind its first marker to its end, byte by byte.
//
// Several readers may try the same text; one has won when it says that the call has begun. Before that nothing has been
// given out, and the text may still turn out to be content.
//
// Thread-safety: one user at a time. The shape and the tools must outlive it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/reply/json_scanner.h"
#include "server/text/reply/known_tools.h"
#include "server/text/reply/reply_format.h"

namespace twostroke::reply {

// What reading a byte gave.
struct CallNews {
  bool begins = false;  // the call is one, `name` and `id` are complete
  std::string name;
  std::string id;
  std::string arguments;  // appended
};

// Reads arguments in one style as JSON text.
class ArgumentsReader {
 public:
  virtual ~ArgumentsReader() = default;
  virtual Step feed(char byte, std::string& json) = 0;
  // On a refusal: the last bytes taken, where they began a marker and did not finish it: another reader may know it.
  virtual std::string unread() const { return ""; }
  // On a refusal: what makes the JSON text whole, where the style's own text was whole so far.
  virtual std::string closing() const { return ""; }
};

// Matches a pattern (reply_format.h), byte by byte.
class PatternMatch {
 public:
  PatternMatch() = default;
  explicit PatternMatch(std::string_view pattern) : pieces_(pattern_pieces(pattern)) {}
  PatternMatch(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}  // NOLINT

  bool done() const { return piece_ == pieces_.size(); }
  // Requires !done(). kDone: the last piece is complete.
  Step feed(char byte);
  // What was taken of a piece that is not complete.
  std::string unread() const { return offset_ == 0 ? "" : pieces_[piece_].substr(0, offset_); }

 private:
  std::vector<std::string> pieces_;
  size_t piece_ = 0;
  size_t offset_ = 0;
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  virtual Step feed(char byte, CallNews& news) = 0;
  virtual std::string unread() const { return ""; }  // as ArgumentsReader::unread
};

// `opening`: what is still to come before the body. JSON arguments are given out as they are written.
std::unique_ptr<CallReader> make_call_reader(const CallShape& shape, const KnownTools& tools,
                                             std::vector<std::string> opening);
// Reads JSON arguments of a function that is known already.
std::unique_ptr<CallReader> make_arguments_call_reader(std::string name);
// Reads the end of a section; it never begins a call.
std::unique_ptr<CallReader> make_end_reader(std::vector<std::string> pieces);

std::unique_ptr<ArgumentsReader> make_json_arguments();
// Ends with the first piece of `end`.
std::unique_ptr<ArgumentsReader> make_tagged_arguments(const Tags& tags, const KnownTools& tools, std::string name,
                                                       std::string end);
std::unique_ptr<ArgumentsReader> make_literal_arguments(ArgumentsStyle style);

}  // namespace twostroke::reply
