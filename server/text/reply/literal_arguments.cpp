// Arguments written as literals of a language: Python's keyword arguments, and Gemma's objects, whose keys are bare and
// whose strings stand between <|"|>.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/reply/call_reader.h"
#include "server/text/reply/marker_search.h"

namespace twostroke::reply {
namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";

void append_utf8(std::string& out, uint32_t code) {
  if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code >= 0x10000) {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 63));
    out += static_cast<char>(0x80 | ((code >> 6) & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

class LiteralArguments : public ArgumentsReader {
 public:
  explicit LiteralArguments(bool python) : python_(python) {}

  Step feed(char byte, std::string& json) override;

 private:
  enum class State {
    kStart,
    kKeyOrEnd,
    kBareKey,
    kKeyEnd,
    kValue,
    kValueOrEnd,
    kBareValue,
    kCommaOrEnd,
    kString,
    kOpenQuote
  };
  enum class Kind { kArguments, kObject, kArray };
  struct Frame {
    Kind kind;
    char closer;
  };

  bool push(Kind kind, char closer, std::string& json);
  Step pop(std::string& json);
  // Gemma's strings may also be JSON's.
  bool at_quote(char byte) const { return byte == '"' || byte == (python_ ? '\'' : kGemmaQuote.front()); }
  Step begin_quote(char byte, bool key, std::string& json);
  Step begin_value(char byte, std::string& json);
  void end_string(std::string& json);
  Step feed_string(char byte, std::string& json);
  Step feed_escaped_string(char byte, std::string& json);
  void take_code(uint32_t code, std::string& json);  // of \uXXXX; half of a pair waits for the other
  void end_bare_value(std::string& json);
  void write_comma(std::string& json) {
    if (comma_) json += ", ";
    comma_ = false;
  }
  char key_separator() const { return python_ && frames_.back().kind == Kind::kArguments ? '=' : ':'; }

  const bool python_;
  State state_ = State::kStart;
  std::vector<Frame> frames_;
  bool comma_ = false;  // one was read, and not yet written: Python allows it in front of the end
  std::string word_;    // a bare key or value; a number of an escape
  bool key_ = false;    // the string is one
  char quote_ = '"';
  size_t quote_bytes_ = 0;  // of an opening <|"|>
  bool escaped_ = false;
  size_t escape_digits_ = 0;
  uint32_t high_surrogate_ = 0;
  MarkerSearch gemma_end_{{std::string(kGemmaQuote)}};
};

bool LiteralArguments::push(Kind kind, char closer, std::string& json) {
  if (frames_.size() == kJsonDepthMax) return false;
  frames_.push_back({kind, closer});
  json += kind == Kind::kArray ? '[' : '{';
  state_ = kind == Kind::kArray ? State::kValueOrEnd : State::kKeyOrEnd;
  return true;
}

Step LiteralArguments::pop(std::string& json) {
  comma_ = false;
  json += frames_.back().kind == Kind::kArray ? ']' : '}';
  frames_.pop_back();
  state_ = State::kCommaOrEnd;
  return frames_.empty() ? Step::kDone : Step::kMore;
}

Step LiteralArguments::begin_quote(char byte, bool key, std::string& json) {
  key_ = key;
  quote_ = byte;
  quote_bytes_ = 1;
  state_ = byte == kGemmaQuote.front() ? State::kOpenQuote : State::kString;
  json += '"';
  return Step::kMore;
}

void LiteralArguments::end_string(std::string& json) {
  json += '"';
  state_ = key_ ? State::kKeyEnd : State::kCommaOrEnd;
}

void LiteralArguments::take_code(uint32_t code, std::string& json) {
  const bool is_low = code >= 0xDC00 && code < 0xE000;
  if (is_low && high_surrogate_ != 0) {
    code = 0x10000 + ((high_surrogate_ - 0xD800) << 10) + (code - 0xDC00);
    high_surrogate_ = 0;
  } else if (code >= 0xD800 && code < 0xDC00) {
    high_surrogate_ = code;
    return;
  }
  std::string character;
  append_utf8(character, code);
  append_json_escaped(json, character);
}

Step LiteralArguments::feed_escaped_string(char byte, std::string& json) {
  const auto append = [&](char character) { append_json_escaped(json, std::string_view(&character, 1)); };
  if (escape_digits_ > 0) {
    if (std::string_view("0123456789abcdefABCDEF").find(byte) == std::string_view::npos) return Step::kRefused;
    word_ += byte;
    if (--escape_digits_ > 0) return Step::kMore;
    take_code(static_cast<uint32_t>(std::stoul(std::exchange(word_, {}), nullptr, 16)), json);
    return Step::kMore;
  }
  if (escaped_) {
    escaped_ = false;
    constexpr std::string_view kNames = "nrtbfav0";
    constexpr std::string_view kMeanings("\n\r\t\b\f\a\v\0", 8);
    if (byte == 'x' || byte == 'u') {
      escape_digits_ = byte == 'x' ? 2 : 4;
    } else if (const size_t name = kNames.find(byte); name != std::string_view::npos) {
      append(kMeanings[name]);
    } else if (byte == '\\' || byte == '\'' || byte == '"' || byte == '/') {  // the last is JSON's
      append(byte);
    } else if (byte != '\n') {  // Python keeps the backslash of what is no escape, and drops a line feed's
      append('\\');
      append(byte);
    }
    return Step::kMore;
  }
  if (byte == '\\') {
    escaped_ = true;
  } else if (byte == quote_) {
    end_string(json);
  } else {
    append(byte);
  }
  return Step::kMore;
}

Step LiteralArguments::feed_string(char byte, std::string& json) {
  if (quote_ != kGemmaQuote.front()) return feed_escaped_string(byte, json);
  std::string certain;
  const size_t found = gemma_end_.feed(byte, certain);
  append_json_escaped(json, certain);
  if (found != MarkerSearch::kNone) end_string(json);
  return Step::kMore;
}

void LiteralArguments::end_bare_value(std::string& json) {
  if (word_ == "True" || word_ == "true") {
    json += "true";
  } else if (word_ == "False" || word_ == "false") {
    json += "false";
  } else if (word_ == "None" || word_ == "null") {
    json += "null";
  } else if (is_json(word_)) {
    json += word_;
  } else {
    json += json_quoted(word_);
  }
  word_.clear();
  state_ = State::kCommaOrEnd;
}

Step LiteralArguments::begin_value(char byte, std::string& json) {
  if (std::string_view(",:=]})").find(byte) != std::string_view::npos) return Step::kRefused;
  write_comma(json);
  if (at_quote(byte)) return begin_quote(byte, false, json);
  switch (byte) {
    case '{':
      return push(Kind::kObject, '}', json) ? Step::kMore : Step::kRefused;
    case '[':
      return push(Kind::kArray, ']', json) ? Step::kMore : Step::kRefused;
    case '(':  // a tuple
      return push(Kind::kArray, ')', json) ? Step::kMore : Step::kRefused;
    default:
      word_ = byte;
      state_ = State::kBareValue;
      return Step::kMore;
  }
}

Step LiteralArguments::feed(char byte, std::string& json) {
  switch (state_) {
    case State::kString:
      return feed_string(byte, json);
    case State::kOpenQuote:
      if (byte != kGemmaQuote[quote_bytes_]) return Step::kRefused;
      if (++quote_bytes_ == kGemmaQuote.size()) state_ = State::kString;
      return Step::kMore;
    case State::kBareKey:
      if (byte == key_separator()) {
        while (!word_.empty() && is_space(word_.back())) word_.pop_back();
        write_comma(json);
        json += json_quoted(word_) + ": ";
        word_.clear();
        state_ = State::kValue;
        return Step::kMore;
      }
      if (word_.size() == kNameBytesMax || std::string_view("{}[](),<>\"'\n").find(byte) != std::string_view::npos) {
        return Step::kRefused;
      }
      word_ += byte;
      return Step::kMore;
    case State::kBareValue:
      if (std::string_view(",]})").find(byte) == std::string_view::npos) {
        if (is_space(byte)) {
          end_bare_value(json);
          return Step::kMore;
        }
        if (word_.size() == kNameBytesMax) return Step::kRefused;
        word_ += byte;
        return Step::kMore;
      }
      end_bare_value(json);
      break;
    default:
      break;
  }
  if (is_space(byte)) return Step::kMore;
  switch (state_) {
    case State::kStart:
      if (byte != (python_ ? '(' : '{')) return Step::kRefused;
      push(Kind::kArguments, python_ ? ')' : '}', json);
      return Step::kMore;
    case State::kKeyOrEnd:
      if (byte == frames_.back().closer) return pop(json);
      if (at_quote(byte) && !(python_ && frames_.back().kind == Kind::kArguments)) {
        write_comma(json);
        return begin_quote(byte, true, json);
      }
      if (std::string_view("{}[](),:=<>\"'").find(byte) != std::string_view::npos) return Step::kRefused;
      word_ = byte;
      state_ = State::kBareKey;
      return Step::kMore;
    case State::kKeyEnd:
      if (byte != key_separator()) return Step::kRefused;
      json += ": ";
      state_ = State::kValue;
      return Step::kMore;
    case State::kValueOrEnd:
      if (byte == frames_.back().closer) return pop(json);
      return begin_value(byte, json);
    case State::kValue:
      return begin_value(byte, json);
    default:
      break;
  }
  // State::kCommaOrEnd
  if (byte == frames_.back().closer) return pop(json);
  if (byte != ',') return Step::kRefused;
  comma_ = true;
  state_ = frames_.back().kind == Kind::kArray ? State::kValueOrEnd : State::kKeyOrEnd;
  return Step::kMore;
}

}  // namespace

std::unique_ptr<ArgumentsReader> make_literal_arguments(ArgumentsStyle style) {
  return std::make_unique<LiteralArguments>(style == ArgumentsStyle::kPython);
}

}  // namespace twostroke::reply
