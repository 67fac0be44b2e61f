#include "server/text/reply/json_scanner.h"

#include <array>

namespace twostroke::reply {
namespace {

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

bool is_hex_digit(char byte) { return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F'); }

}  // namespace

void append_json_escaped(std::string& json, std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (const char byte : bytes) {
    switch (byte) {
      case '"':
        json += "\\\"";
        continue;
      case '\\':
        json += "\\\\";
        continue;
      case '\n':
        json += "\\n";
        continue;
      case '\r':
        json += "\\r";
        continue;
      case '\t':
        json += "\\t";
        continue;
      default:
        break;
    }
    const auto code = static_cast<unsigned char>(byte);
    if (code >= 0x20) {
      json += byte;
    } else {
      json += "\\u00";
      json += kHex[code >> 4];
      json += kHex[code & 15];
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string json = "\"";
  append_json_escaped(json, text);
  json += '"';
  return json;
}

Step JsonScanner::feed(char byte, std::string& json) {
  switch (state_) {
    case State::kString:
    case State::kEscape:
    case State::kUnicode:
      return feed_string(byte, json);
    case State::kNumber:
      return feed_number(byte, json);
    case State::kWord:
      if (byte != word_.front()) return Step::kRefused;
      json += byte;
      word_.remove_prefix(1);
      return word_.empty() ? end_value() : Step::kMore;
    default:
      break;
  }
  if (is_space(byte)) {
    json += byte;
    return Step::kMore;
  }
  switch (state_) {
    case State::kValueOrEnd:
      if (byte == ']') return close(byte, json);
      return begin_value(byte, json);
    case State::kValue:
      return begin_value(byte, json);
    case State::kKeyOrEnd:
      if (byte == '}') return close(byte, json);
      [[fallthrough]];
    case State::kKey:
      if (byte != '"') return Step::kRefused;
      json += byte;
      string_is_key_ = true;
      state_ = State::kString;
      return Step::kMore;
    case State::kColon:
      if (byte != ':') return Step::kRefused;
      json += byte;
      state_ = State::kValue;
      return Step::kMore;
    default:
      break;
  }
  // State::kCommaOrEnd
  if (byte == closers_.back()) return close(byte, json);
  if (byte != ',') return Step::kRefused;
  json += byte;
  state_ = closers_.back() == '}' ? State::kKey : State::kValue;
  return Step::kMore;
}

Step JsonScanner::begin_value(char byte, std::string& json) {
  switch (byte) {
    case '{':
    case '[':
      if (closers_.size() == kJsonDepthMax) return Step::kRefused;
      closers_.push_back(byte == '{' ? '}' : ']');
      state_ = byte == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
      break;
    case '"':
      string_is_key_ = false;
      state_ = State::kString;
      break;
    case 't':
      word_ = "rue";
      state_ = State::kWord;
      break;
    case 'f':
      word_ = "alse";
      state_ = State::kWord;
      break;
    case 'n':
      word_ = "ull";
      state_ = State::kWord;
      break;
    default:
      if (byte != '-' && !is_digit(byte)) return Step::kRefused;
      number_ = byte == '-' ? Number::kMinus : byte == '0' ? Number::kZero : Number::kInteger;
      state_ = State::kNumber;
      break;
  }
  json += byte;
  return Step::kMore;
}

Step JsonScanner::end_value() {
  state_ = State::kCommaOrEnd;
  return closers_.empty() ? Step::kDone : Step::kMore;
}

Step JsonScanner::close(char byte, std::string& json) {
  json += byte;
  closers_.pop_back();
  return end_value();
}

Step JsonScanner::feed_string(char byte, std::string& json) {
  constexpr std::string_view kEscapes = "\"\\/bfnrtu";
  if (state_ == State::kUnicode) {
    if (!is_hex_digit(byte)) return Step::kRefused;
    json += byte;
    if (--digits_ == 0) state_ = State::kString;
    return Step::kMore;
  }
  if (state_ == State::kEscape) {
    if (kEscapes.find(byte) == std::string_view::npos) return Step::kRefused;
    json += byte;
    state_ = byte == 'u' ? State::kUnicode : State::kString;
    digits_ = 4;
    return Step::kMore;
  }
  if (byte == '"') {
    json += byte;
    if (!string_is_key_) return end_value();
    state_ = State::kColon;
    return Step::kMore;
  }
  if (static_cast<unsigned char>(byte) < 0x20) {
    append_json_escaped(json, std::string_view(&byte, 1));
    return Step::kMore;
  }
  json += byte;
  if (byte == '\\') state_ = State::kEscape;
  return Step::kMore;
}

Step JsonScanner::feed_number(char byte, std::string& json) {
  const auto take = [&](Number next) {
    number_ = next;
    json += byte;
    return Step::kMore;
  };
  switch (number_) {
    case Number::kMinus:
      if (!is_digit(byte)) return Step::kRefused;
      return take(byte == '0' ? Number::kZero : Number::kInteger);
    case Number::kInteger:
      if (is_digit(byte)) return take(Number::kInteger);
      [[fallthrough]];
    case Number::kZero:
      if (byte == '.') return take(Number::kPoint);
      if (byte == 'e' || byte == 'E') return take(Number::kExponentMark);
      break;
    case Number::kPoint:
      if (!is_digit(byte)) return Step::kRefused;
      return take(Number::kFraction);
    case Number::kFraction:
      if (is_digit(byte)) return take(Number::kFraction);
      if (byte == 'e' || byte == 'E') return take(Number::kExponentMark);
      break;
    case Number::kExponentMark:
      if (byte == '+' || byte == '-') return take(Number::kExponentSign);
      [[fallthrough]];
    case Number::kExponentSign:
      if (!is_digit(byte)) return Step::kRefused;
      return take(Number::kExponent);
    case Number::kExponent:
      if (is_digit(byte)) return take(Number::kExponent);
      break;
  }
  // The number ended before this byte.
  if (end_value() == Step::kDone) return Step::kDoneBefore;
  return feed(byte, json);
}

bool is_json(std::string_view text) {
  JsonScanner scanner;
  std::string json;
  Step step = Step::kMore;
  bool ended = false;  // by an earlier byte
  for (const char byte : text) {
    if (step == Step::kMore) step = scanner.feed(byte, json);
    if (step == Step::kRefused) return false;
    const bool ended_before = step == Step::kDoneBefore || (step == Step::kDone && ended);
    if (ended_before && !is_space(byte)) return false;
    ended = step != Step::kMore;
    if (ended) step = Step::kDone;
  }
  if (step == Step::kDone) return true;
  return scanner.feed(' ', json) == Step::kDoneBefore;  // a number ends with the text
}

}  // namespace twostroke::reply
