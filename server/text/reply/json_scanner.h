// JsonScanner: reads one JSON value (RFC 8259) byte by byte and says where it ends.
//
// Depth is bounded by a stack of its own, never by recursion. A control character within a string, which JSON forbids
// and models write (a line feed in a program's text), is passed on escaped. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twostroke::reply {

constexpr size_t kJsonDepthMax = 100;  // containers in one another

// What came of a byte given to a reader of this folder.
enum class Step {
  kMore,        // taken
  kDone,        // taken, and it was the last
  kDoneBefore,  // not taken: all was read before it
  kRefused,     // not taken: it cannot follow
};

inline bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

// Appends bytes of a string as they stand between the quotes of a JSON string.
void append_json_escaped(std::string& json, std::string_view bytes);
// The string as a JSON text, quotes included.
std::string json_quoted(std::string_view text);

class JsonScanner {
 public:
  // Appends what was taken to `json`. White space before the value is taken too. kDoneBefore: behind a number.
  Step feed(char byte, std::string& json);

 private:
  enum class State : uint8_t {
    kValue,
    kValueOrEnd,  // behind '['
    kKeyOrEnd,    // behind '{'
    kKey,
    kColon,
    kCommaOrEnd,
    kString,
    kEscape,
    kUnicode,
    kWord,
    kNumber,
  };
  enum class Number : uint8_t { kMinus, kZero, kInteger, kPoint, kFraction, kExponentMark, kExponentSign, kExponent };

  Step begin_value(char byte, std::string& json);
  Step end_value();  // one value is whole
  Step close(char byte, std::string& json);
  Step feed_string(char byte, std::string& json);
  Step feed_number(char byte, std::string& json);

  State state_ = State::kValue;
  Number number_ = Number::kMinus;
  bool string_is_key_ = false;
  uint8_t digits_ = 0;         // of \uXXXX
  std::string_view word_;      // what is left of true, false, null
  std::vector<char> closers_;  // of open containers, outermost first
};

// The text is one JSON value within the limit of depth.
bool is_json(std::string_view text);

}  // namespace twostroke::reply
