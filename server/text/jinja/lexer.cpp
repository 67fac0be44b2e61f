#include "server/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string>

#include "server/text/jinja/failure.h"
#include "server/text/jinja/string_literal.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

// With "\n" for every line end, and without the last one.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// The longest first, so that "//" is not read as two.
constexpr std::array kOperators = {"==", "!=", ">=", "<=", "//", "**", "+", "-", "/", "*", "%", "~", "[",
                                   "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), view_(source_) {}

  std::vector<Token> run() {
    while (position_ < view_.size()) {
      const std::size_t open = next_tag(position_);
      if (open == std::string_view::npos) {
        add_data(view_.substr(position_));
        break;
      }
      enter_tag(open);
    }
    add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  // Where the next "{{", "{%" or "{#" is.
  std::size_t next_tag(std::size_t from) const {
    for (std::size_t at = view_.find('{', from); at != std::string_view::npos; at = view_.find('{', at + 1)) {
      const char next = at + 1 < view_.size() ? view_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  void enter_tag(std::size_t open) {
    const char kind = view_[open + 1];
    const char sign = open + 2 < view_.size() ? view_[open + 2] : '\0';
    const bool strips = sign == '-';
    const bool keeps = sign == '+';
    const std::string_view before = view_.substr(position_, open - position_);
    add_data(before_tag(before, strips, kind != '{' && !keeps));
    advance(open + (strips || keeps ? 3 : 2));
    const int line = line_;
    if (kind == '#') {
      skip_comment(line);
    } else if (kind == '%' && at_word("raw")) {
      read_raw(line);
    } else {
      const bool block = kind == '%';
      add(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
      read_tag(block);
    }
  }

  // The text that is left of what stands before a tag.
  std::string_view before_tag(std::string_view text, bool strips, bool strips_indent) const {
    if (strips) {
      return text.substr(0, utf8::trimmed_end(text));
    }
    const std::size_t line_begin = text.rfind('\n') + 1;  // 0 where there is none
    const std::string_view indent = text.substr(line_begin);
    const bool first_in_line = line_begin > 0 || line_starting_;
    if (strips_indent && first_in_line && is_blank(indent)) return text.substr(0, line_begin);
    return text;
  }

  static bool is_blank(std::string_view text) { return utf8::trimmed_end(text) == 0; }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(view_.begin() + static_cast<std::ptrdiff_t>(position_),
                                         view_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    line_starting_ = to > 0 && view_[to - 1] == '\n';
    position_ = to;
  }

  void skip_space() {
    std::size_t end = position_;
    while (end < view_.size() && utf8::is_space(utf8::decode(view_, end))) end += utf8::width(view_[end]);
    advance(end);
  }

  bool starts(std::string_view text) const { return view_.substr(position_).starts_with(text); }

  // Behind a tag's end sign at `position_`: a '-' strips all white space, trim_blocks the line end.
  void leave_tag(std::string_view end, bool trims) {
    const char sign = view_[position_];
    advance(position_ + end.size() + (sign == '-' || sign == '+' ? 1 : 0));
    if (sign == '-') return skip_space();
    if (trims && sign != '+' && position_ < view_.size() && view_[position_] == '\n') advance(position_ + 1);
  }

  bool at_tag_end(std::string_view end, bool plus) const {
    if (starts(end)) return true;
    const bool signed_end = starts("-") || (plus && starts("+"));
    return signed_end && view_.substr(position_ + 1).starts_with(end);
  }

  void skip_comment(int line) {
    const std::size_t end = view_.find("#}", position_);
    if (end == std::string_view::npos) fail_at(line, "Missing end of comment tag");
    const bool is_signed = end > position_ && (view_[end - 1] == '-' || view_[end - 1] == '+');
    advance(is_signed ? end - 1 : end);
    leave_tag("#}", true);
  }

  // Whether the tag that begins here holds this word alone; `word_end_` is then behind the word and its space.
  bool at_word(std::string_view word) {
    std::size_t at = position_;
    const auto skip = [&] {
      while (at < view_.size() && std::isspace(static_cast<unsigned char>(view_[at])) != 0) ++at;
    };
    skip();
    if (!view_.substr(at).starts_with(word)) return false;
    at += word.size();
    skip();
    const std::string_view rest = view_.substr(at);
    if (!rest.starts_with("%}") && !rest.starts_with("-%}") && !rest.starts_with("+%}")) return false;
    word_end_ = at;
    return true;
  }

  void read_raw(int line) {
    advance(word_end_);
    if (starts("+")) fail_at(line_, "unexpected '+' in the tag raw");
    leave_tag("%}", false);
    for (std::size_t open = view_.find("{%", position_); open != std::string_view::npos;
         open = view_.find("{%", open + 2)) {
      const std::size_t begin = position_;
      const char sign = open + 2 < view_.size() ? view_[open + 2] : '\0';
      const bool is_signed = sign == '-' || sign == '+';
      position_ = open + (is_signed ? 3 : 2);
      const bool ends = at_word("endraw");
      position_ = begin;
      if (!ends) continue;
      add_data(before_tag(view_.substr(begin, open - begin), sign == '-', sign != '+'));
      advance(word_end_);
      leave_tag("%}", true);
      return;
    }
    fail_at(line, "Missing end of raw directive");
  }

  // The tokens of one tag, up to and including its end.
  void read_tag(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    std::string open_brackets;
    for (;;) {
      skip_space();
      if (position_ >= view_.size()) {
        fail_at(line_, block ? "unexpected end of template, expected 'end of statement block'"
                             : "unexpected end of template, expected 'end of print statement'");
      }
      if (open_brackets.empty() && at_tag_end(end, block)) {
        add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
        leave_tag(end, block);
        return;
      }
      read_token(open_brackets);
    }
  }

  void read_token(std::string& open_brackets) {
    const char c = view_[position_];
    if (utf8::is_ascii_digit(c)) return read_number();
    if (c == '"' || c == '\'') return read_string();
    if (c == '_' || static_cast<unsigned char>(c) >= 0x80 || std::isalpha(static_cast<unsigned char>(c)) != 0) {
      return read_name();
    }
    for (const std::string_view symbol : kOperators) {
      if (!starts(symbol)) continue;
      check_brackets(symbol[0], open_brackets);
      add(TokenKind::kOperator, std::string(symbol));
      advance(position_ + symbol.size());
      return;
    }
    fail_at(line_, "unexpected char '" + std::string(1, c) + "'");
  }

  void check_brackets(char symbol, std::string& open_brackets) const {
    if (symbol == '(') open_brackets += ')';
    if (symbol == '[') open_brackets += ']';
    if (symbol == '{') open_brackets += '}';
    if (symbol != ')' && symbol != ']' && symbol != '}') return;
    if (open_brackets.empty()) fail_at(line_, std::string("unexpected '") + symbol + "'");
    if (open_brackets.back() != symbol) {
      fail_at(line_, std::string("unexpected '") + symbol + "', expected '" + open_brackets.back() + "'");
    }
    open_brackets.pop_back();
  }

  void read_name() {
    std::size_t end = position_;
    while (end < view_.size()) {
      const char32_t character = utf8::decode(view_, end);
      if (character != '_' && !utf8::is_alnum(character)) break;
      end += utf8::width(view_[end]);
    }
    if (end == position_) fail_at(line_, "unexpected character in a tag");
    add(TokenKind::kName, std::string(view_.substr(position_, end - position_)));
    advance(end);
  }

  void read_string() {
    const char quote = view_[position_];
    std::size_t end = position_ + 1;
    while (end < view_.size() && view_[end] != quote) end += view_[end] == '\\' ? 2 : 1;
    if (end >= view_.size()) fail_at(line_, std::string("a string that begins with ") + quote + " does not end");
    add(TokenKind::kString, unescape(view_.substr(position_ + 1, end - position_ - 1), line_));
    advance(end + 1);
  }

  // Digits, with single underscores between them, from `at` on; gives the end.
  std::size_t digits_end(std::size_t at, std::string_view allowed) const {
    while (at < view_.size()) {
      const bool underscore = view_[at] == '_' && at + 1 < view_.size() && allowed.find(view_[at + 1]) != allowed.npos;
      if (!underscore && allowed.find(view_[at]) == std::string_view::npos) break;
      ++at;
    }
    return at;
  }

  void read_number() {
    constexpr std::string_view kDecimal = "0123456789";
    const char prefix = view_[position_] == '0' && position_ + 1 < view_.size() ? view_[position_ + 1] : '\0';
    switch (prefix) {
      case 'x':
      case 'X':
        return read_integer(position_ + 2, digits_end(position_ + 2, "0123456789abcdefABCDEF"), 16);
      case 'o':
      case 'O':
        return read_integer(position_ + 2, digits_end(position_ + 2, "01234567"), 8);
      case 'b':
      case 'B':
        return read_integer(position_ + 2, digits_end(position_ + 2, "01"), 2);
      default:
        break;
    }
    std::size_t end = digits_end(position_, kDecimal);
    bool is_float = false;
    const bool after_dot = position_ > 0 && view_[position_ - 1] == '.';  // "a.0.1" are two subscripts
    if (!after_dot && end + 1 < view_.size() && view_[end] == '.' && utf8::is_ascii_digit(view_[end + 1])) {
      end = digits_end(end + 1, kDecimal);
      is_float = true;
    }
    if (!after_dot && end < view_.size() && (view_[end] == 'e' || view_[end] == 'E')) {
      const bool is_signed = end + 1 < view_.size() && (view_[end + 1] == '+' || view_[end + 1] == '-');
      const std::size_t digits = end + (is_signed ? 2 : 1);
      if (digits < view_.size() && utf8::is_ascii_digit(view_[digits])) {
        end = digits_end(digits, kDecimal);
        is_float = true;
      }
    }
    if (!is_float) {
      const std::string_view integer = view_.substr(position_, end - position_);
      if (!after_dot && integer.front() == '0' && integer.find_first_not_of("0_") != std::string_view::npos) {
        fail_at(line_, "the integer " + std::string(integer) + " begins with 0; an octal one begins with 0o");
      }
      return read_integer(position_, end, 10);
    }
    const std::string text = without_underscores(position_, end);
    add(TokenKind::kFloat);
    const auto result = std::from_chars(text.data(), text.data() + text.size(), tokens_.back().number);
    if (result.ec != std::errc()) tokens_.back().number = std::strtod(text.c_str(), nullptr);  // under- or overflow
    advance(end);
  }

  std::string without_underscores(std::size_t begin, std::size_t end) const {
    std::string text(view_.substr(begin, end - begin));
    std::erase(text, '_');
    return text;
  }

  void read_integer(std::size_t begin, std::size_t end, int base) {
    const std::string digits = without_underscores(begin, end);
    add(TokenKind::kInteger);
    std::int64_t& value = tokens_.back().integer;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || stop != digits.data() + digits.size()) {
      fail_at(line_, "the integer " + std::string(view_.substr(position_, end - position_)) +
                         " does not fit 64 bits with a sign");
    }
    advance(end);
  }

  void add(TokenKind kind, std::string text = {}) { tokens_.push_back({kind, line_, std::move(text), 0, 0}); }

  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenKind::kData, std::string(text));
  }

  const std::string source_;
  const std::string_view view_;
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  std::size_t word_end_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace twostroke::jinja
