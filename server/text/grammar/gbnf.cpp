#include "server/text/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/text/grammar/grammar_builder.h"
#include "server/text/utf8.h"

namespace twostroke::grammar {
namespace {

constexpr char32_t kCodePointMax = 0x10FFFF;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_decimal(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_decimal(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char32_t code_point_of(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return byte(0);
  char32_t value = byte(0) & (0x7Fu >> character.size());
  for (size_t i = 1; i < character.size(); ++i) value = value << 6 | (byte(i) & 0x3F);
  return value;
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, const Tokenizer* tokenizer) : text_(text), tokenizer_(tokenizer) {}

  Result<std::shared_ptr<const Grammar>> run() {
    skip_space(true);
    while (ok() && position_ < text_.size()) parse_rule();
    if (!ok()) return error_;
    for (const auto& [name, rule] : rules_) {
      if (!rule.defined) {
        line_ = rule.line;
        fail("there is no rule '" + name + "'");
        return error_;
      }
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return invalid_argument("the grammar has no rule 'root', where its texts begin");
    return builder_.build(builder_.reference(root->second.id));
  }

 private:
  struct NamedRule {
    RuleId id = 0;
    uint32_t line = 0;  // of its first mention
    bool defined = false;
  };

  bool ok() const { return error_.ok(); }

  void fail(const std::string& message, StatusCode code = StatusCode::kInvalidArgument) {
    if (ok()) error_ = {code, "line " + std::to_string(line_) + ": " + message};
  }

  char peek(size_t ahead = 0) const { return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0'; }
  bool at_end() const { return position_ >= text_.size(); }

  bool take(std::string_view expected) {
    if (!text_.substr(position_).starts_with(expected)) return false;
    position_ += expected.size();
    return true;
  }

  // What stands here, for messages.
  std::string here() const {
    if (at_end()) return "the end";
    const auto c = static_cast<unsigned char>(peek());
    if (c == '\n' || c == '\r') return "the end of the line";
    if (c >= 0x20 && c < 0x7F) return std::string("'") + peek() + "'";
    constexpr char kDigits[] = "0123456789ABCDEF";
    return std::string("the byte 0x") + kDigits[c >> 4] + kDigits[c & 15];
  }

  void skip_space(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        while (!at_end() && peek() != '\n' && peek() != '\r') ++position_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        if (c == '\n' || (c == '\r' && peek(1) != '\n')) ++line_;
        ++position_;
      } else {
        return;
      }
    }
  }

  std::string parse_name() {
    const size_t begin = position_;
    while (is_name_char(peek())) ++position_;
    if (begin == position_) fail("expected a name, found " + here());
    return std::string(text_.substr(begin, position_ - begin));
  }

  NamedRule& rule(const std::string& name) {
    const auto [entry, is_new] = rules_.try_emplace(name);
    if (is_new) entry->second = {builder_.add_rule(name), line_, false};
    return entry->second;
  }

  void parse_rule() {
    const std::string name = parse_name();
    if (!ok()) return;
    skip_space(false);
    if (!take("::=")) return fail("expected '::=' behind '" + name + "', found " + here());
    NamedRule& defined = rule(name);
    if (defined.defined) return fail("rule '" + name + "' is defined twice");
    defined.defined = true;
    skip_space(true);
    const ExprId body = parse_choice(0);
    if (!ok()) return;
    if (!at_end() && peek() != '\n' && peek() != '\r') return fail("expected the end of the line, found " + here());
    builder_.define(defined.id, body);
    skip_space(true);
  }

  // Alternatives, up to what cannot belong to them.
  ExprId parse_choice(uint32_t depth) {
    std::vector<ExprId> alternatives;
    do {
      skip_space(true);
      alternatives.push_back(parse_sequence(depth));
    } while (ok() && (take("|") || continues_with_bar()));
    return builder_.choice(alternatives);
  }

  // A line that begins with '|' goes on with the rule of the line before.
  bool continues_with_bar() {
    const size_t position = position_;
    const uint32_t line = line_;
    skip_space(true);
    if (take("|")) return true;
    position_ = position;
    line_ = line;
    return false;
  }

  ExprId parse_sequence(uint32_t depth) {
    std::vector<ExprId> parts;
    while (ok() && !at_end()) {
      const std::optional<ExprId> item = parse_item(depth);
      if (!item) break;
      parts.push_back(parse_repeats(*item, depth));
      skip_space(depth > 0);
    }
    return builder_.sequence(parts);
  }

  std::optional<ExprId> parse_item(uint32_t depth) {
    const char c = peek();
    if (c == '"') return parse_literal();
    if (c == '[') return parse_class();
    if (c == '(') return parse_group(depth);
    if (c == '.') {
      ++position_;
      return builder_.code_point({}, /*negated=*/true);
    }
    if (c == '<' || (c == '!' && peek(1) == '<')) return parse_token();
    if (is_name_char(c)) return builder_.reference(rule(parse_name()).id);
    if (c == '*' || c == '+' || c == '?' || c == '{') fail("there is nothing before '" + std::string(1, c) + "'");
    if (c != '|' && c != ')' && c != '\n' && c != '\r') fail("unexpected " + here());
    return std::nullopt;
  }

  ExprId parse_group(uint32_t depth) {
    if (depth >= kGbnfDepthMax) {
      fail("groups nest more than " + std::to_string(kGbnfDepthMax) + " deep");
      return builder_.never();
    }
    ++position_;
    const ExprId body = parse_choice(depth + 1);
    if (ok() && !take(")")) fail("expected ')', found " + here());
    return body;
  }

  ExprId parse_literal() {
    const uint32_t line = line_;
    ++position_;
    std::string bytes;
    while (ok() && peek() != '"') {
      if (at_end() || peek() == '\n') {
        line_ = line;
        fail("a text has no '\"' at its end");
      } else if (peek() == '\\') {
        append_utf8(parse_escape(), bytes);
      } else {
        bytes.append(take_character());
      }
    }
    ++position_;
    return builder_.literal(bytes);
  }

  ExprId parse_class() {
    ++position_;
    const bool negated = take("^");
    std::vector<CodePointRange> ranges;
    while (ok() && peek() != ']') {
      const char32_t first = parse_class_character();
      char32_t last = first;
      if (ok() && peek() == '-' && peek(1) != ']') {
        ++position_;
        last = parse_class_character();
      }
      if (first > last) fail("a range ends before it begins");
      ranges.push_back({first, last});
    }
    ++position_;
    if (ranges.empty()) fail("a class needs at least one character");
    return builder_.code_point(ranges, negated);
  }

  char32_t parse_class_character() {
    if (at_end() || peek() == '\n') {
      fail("a class has no ']' at its end");
      return 0;
    }
    return peek() == '\\' ? parse_escape() : code_point_of(take_character());
  }

  // One character as it is written.
  std::string_view take_character() {
    const Utf8Unit unit = utf8_first_unit(text_.substr(position_));
    if (unit.kind != Utf8Kind::kCharacter) {
      fail("the grammar is not UTF-8");
      return " ";
    }
    position_ += unit.size;
    return text_.substr(position_ - unit.size, unit.size);
  }

  char32_t parse_escape() {
    ++position_;
    const char c = peek();
    if (at_end()) {
      fail("there is nothing behind '\\'");
      return 0;
    }
    ++position_;
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case '\\':
      case '"':
      case '[':
      case ']':
        return static_cast<char32_t>(c);
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      default:
        fail(std::string("unknown escape '\\") + c + "'");
        return 0;
    }
  }

  char32_t parse_hex(uint32_t digits) {
    char32_t value = 0;
    for (uint32_t i = 0; i < digits; ++i, ++position_) {
      const int digit = hex_value(peek());
      if (digit < 0) {
        fail("expected " + std::to_string(digits) + " hexadecimal digits, found " + here());
        return 0;
      }
      value = value << 4 | static_cast<char32_t>(digit);
    }
    if (value > kCodePointMax || (value >= 0xD800 && value <= 0xDFFF)) {
      fail("an escape names no Unicode character");
      return 0;
    }
    return value;
  }

  static void append_utf8(char32_t code_point, std::string& out) {
    const auto byte = [](char32_t value) { return static_cast<char>(static_cast<unsigned char>(value)); };
    if (code_point < 0x80) {
      out.push_back(byte(code_point));
      return;
    }
    const int size = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    out.push_back(byte((0xF00u >> size & 0xFF) | code_point >> (6 * (size - 1))));
    for (int shift = 6 * (size - 2); shift >= 0; shift -= 6) out.push_back(byte(0x80 | (code_point >> shift & 0x3F)));
  }

  ExprId parse_token() {
    const bool except = take("!");
    ++position_;
    TokenId token = -1;
    if (take("[")) {
      token = static_cast<TokenId>(parse_number("a token's number", INT32_MAX));
      if (ok() && !take("]>")) fail("expected ']>', found " + here());
    } else {
      const size_t end = text_.find_first_of(">\n", position_);
      if (end == std::string_view::npos || text_[end] != '>') {
        fail("a token has no '>' at its end");
        return builder_.never();
      }
      const std::string name(text_.substr(position_ - 1, end + 1 - (position_ - 1)));
      position_ = end + 1;
      if (tokenizer_ == nullptr)
        fail("there is no vocabulary to look up " + name + " in; write <[number]>", StatusCode::kUnsupported);
      else if ((token = tokenizer_->find(name)) < 0)
        fail("the vocabulary has no token " + name);
    }
    if (!ok()) return builder_.never();
    return except ? builder_.token_except(token) : builder_.control_token(token);
  }

  ExprId parse_repeats(ExprId item, uint32_t depth) {
    for (uint32_t repeats = 0; ok(); ++repeats) {
      skip_space(depth > 0);
      if (take("*")) {
        item = builder_.repeat(item, 0, kUnbounded);
      } else if (take("+")) {
        item = builder_.repeat(item, 1, kUnbounded);
      } else if (take("?")) {
        item = builder_.repeat(item, 0, 1);
      } else if (take("{")) {
        item = parse_braces(item);
      } else {
        break;
      }
    }
    return item;
  }

  ExprId parse_braces(ExprId item) {
    skip_space(false);
    const uint32_t min = parse_number("a number of repetitions", kRepeatMax);
    uint32_t max = min;
    skip_space(false);
    if (ok() && take(",")) {
      skip_space(false);
      max = is_decimal(peek()) ? parse_number("a number of repetitions", kRepeatMax) : kUnbounded;
      skip_space(false);
    }
    if (ok() && !take("}")) fail("expected '}', found " + here());
    if (min > max) fail("a repetition's highest number is below its lowest");
    return ok() ? builder_.repeat(item, min, max) : builder_.never();
  }

  uint32_t parse_number(const std::string& what, uint32_t highest) {
    if (!is_decimal(peek())) fail("expected " + what + ", found " + here());
    uint64_t value = 0;
    for (; is_decimal(peek()); ++position_) value = std::min<uint64_t>(10 * value + (peek() - '0'), UINT32_MAX);
    if (value > highest) fail(what + " is above " + std::to_string(highest));
    return static_cast<uint32_t>(value);
  }

  static constexpr uint32_t kRepeatMax = GrammarLimits{}.repeat_max;

  const std::string_view text_;
  const Tokenizer* const tokenizer_;
  size_t position_ = 0;
  uint32_t line_ = 1;
  Status error_;
  GrammarBuilder builder_;
  std::map<std::string, NamedRule> rules_;
};

}  // namespace

Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view text, const Tokenizer* tokenizer) {
  return GbnfParser(text, tokenizer).run();
}

}  // namespace twostroke::grammar
