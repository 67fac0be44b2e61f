#include "server/text/grammar/regex_syntax.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "server/text/utf8.h"

namespace twostroke::grammar {

namespace {

constexpr char32_t kEnd = UINT32_MAX;            // behind the last character of the pattern
constexpr uint32_t kRepeatBoundMax = 1'000'000;  // larger bounds than any automaton could hold are cut to this one

bool is_hex(char32_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
uint32_t hex_digit(char32_t c) {
  if (c <= '9') return static_cast<uint32_t>(c - '0');
  return static_cast<uint32_t>((c | 0x20U) - 'a' + 10);
}
bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

RegexNode character(CodePointSet set) { return {RegexNode::Kind::kCharacter, std::move(set), 0, 0, {}}; }

// Positions in messages count characters from 1.
class RegexParser {
 public:
  RegexParser(std::u32string pattern, uint32_t depth_max) : pattern_(std::move(pattern)), depth_max_(depth_max) {}

  Result<RegexNode> parse() {
    RegexNode root = choice(0);
    if (error_.ok() && peek() == U')') fail("')' without a '(' before it");
    if (!error_.ok()) return error_;
    return root;
  }

 private:
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : kEnd; }
  bool take(char32_t c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view text) {
    if (pattern_.compare(at_, text.size(), text) != 0) return false;
    at_ += text.size();
    return true;
  }

  std::string place() const { return "at " + std::to_string(at_ + 1) + ": "; }
  void fail(const std::string& what) {
    if (error_.ok()) error_ = invalid_argument(place() + what);
    at_ = pattern_.size();  // everything ends by itself
  }
  void refuse(const std::string& what) {
    if (error_.ok()) error_ = unsupported(place() + what + " is not supported");
    at_ = pattern_.size();
  }

  RegexNode choice(uint32_t depth) {
    RegexNode result{RegexNode::Kind::kChoice, {}, 0, 0, {}};
    do {
      result.children.push_back(sequence(depth));
    } while (take(U'|'));
    return result.children.size() == 1 ? std::move(result.children.front()) : std::move(result);
  }

  RegexNode sequence(uint32_t depth) {
    RegexNode result;
    while (error_.ok() && peek() != kEnd && peek() != U'|' && peek() != U')') result.children.push_back(term(depth));
    return result;
  }

  RegexNode term(uint32_t depth) {
    if (take(U'^')) return assertion(RegexNode::Kind::kTextBegin);
    if (take(U'$')) return assertion(RegexNode::Kind::kTextEnd);
    return quantified(atom(depth));
  }

  RegexNode assertion(RegexNode::Kind kind) {
    const char32_t next = peek();
    if (next == U'*' || next == U'+' || next == U'?') fail("an anchor cannot be repeated");
    return {kind, {}, 0, 0, {}};
  }

  RegexNode atom(uint32_t depth) {
    if (take(U'(')) return group(depth);
    if (take(U'[')) return character(character_class());
    if (take(U'.')) return character(complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    if (take(U'\\')) return character(escape(false));
    const char32_t c = peek();
    if (c == U'*' || c == U'+' || c == U'?' || (c == U'{' && is_bounds())) {
      fail("nothing to repeat");
      return {};
    }
    ++at_;
    return character(normalized({{c, c}}));
  }

  RegexNode group(uint32_t depth) {
    if (depth >= depth_max_) {
      fail("more than " + std::to_string(depth_max_) + " groups in one another");
      return {};
    }
    if (take(U'?')) group_kind();
    RegexNode inside = choice(depth + 1);
    if (error_.ok() && !take(U')')) fail("a ')' is missing");
    return inside;
  }

  // What follows "(?"; capturing or not makes no difference here.
  void group_kind() {
    if (take(U':')) return;
    if (peek() == U'=' || peek() == U'!') return refuse("look-ahead");
    if (peek() == U'<' && (peek(1) == U'=' || peek(1) == U'!')) return refuse("look-behind");
    if (peek() == U'>') return refuse("an atomic group");
    const bool named = take(U'<') || take(U"P<");
    if (!named) return refuse("'(?' with flags");
    const size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek()) || peek() == U'_' || peek() == U'$') ++at_;
    if (at_ == begin || !take(U'>')) fail("not a group's name");
  }

  // "{2}", "{2,}", "{2,3}"; any other '{' stands for itself.
  bool is_bounds() const {
    size_t i = 1;
    while (is_digit(peek(i))) ++i;
    if (i == 1) return false;
    if (peek(i) == U',') {
      ++i;
      while (is_digit(peek(i))) ++i;
    }
    return peek(i) == U'}';
  }
  uint32_t number() {
    uint32_t value = 0;
    for (; is_digit(peek()); ++at_) value = std::min(value * 10 + (peek() - U'0'), kRepeatBoundMax);
    return value;
  }

  RegexNode quantified(RegexNode inside) {
    if (!error_.ok()) return inside;
    RegexNode result{RegexNode::Kind::kRepeat, {}, 0, UINT32_MAX, {}};
    if (take(U'+')) {
      result.min = 1;
    } else if (take(U'?')) {
      result.max = 1;
    } else if (peek() == U'{' && is_bounds()) {
      ++at_;
      result.min = number();
      if (!take(U',')) {
        result.max = result.min;
      } else if (peek() != U'}') {
        result.max = number();
      }
      ++at_;
      if (result.max < result.min) fail("a repetition whose bounds are out of order");
    } else if (!take(U'*')) {
      return inside;
    }
    take(U'?');  // lazy: the same texts match
    const char32_t next = peek();
    if (next == U'*' || next == U'+' || next == U'?' || (next == U'{' && is_bounds())) fail("nothing to repeat");
    result.children.push_back(std::move(inside));
    return result;
  }

  // Behind a '[', through its ']'.
  CodePointSet character_class() {
    const bool negated = take(U'^');
    CodePointSet set;
    while (error_.ok() && peek() != U']') {
      if (peek() == kEnd) {
        fail("a ']' is missing");
        break;
      }
      const CodePointSet first = class_member();
      const bool is_range = peek() == U'-' && peek(1) != U']' && peek(1) != kEnd;
      set.insert(set.end(), first.begin(), first.end());
      if (!is_range || !error_.ok()) continue;
      ++at_;
      const CodePointSet last = class_member();
      if (!error_.ok()) break;
      if (!is_single(first) || !is_single(last)) {
        set.emplace_back('-', '-');
        set.insert(set.end(), last.begin(), last.end());
      } else if (last.front().first < first.front().first) {
        fail("a range whose ends are out of order");
      } else {
        set.emplace_back(first.front().first, last.front().first);
      }
    }
    take(U']');
    set = normalized(std::move(set));
    return negated ? complement(set) : set;
  }
  static bool is_single(const CodePointSet& set) { return set.size() == 1 && set[0].first == set[0].second; }

  CodePointSet class_member() {
    if (take(U'\\')) return escape(true);
    const char32_t c = peek();
    ++at_;
    return normalized({{c, c}});
  }

  // Behind a '\'.
  CodePointSet escape(bool in_class) {
    const char32_t c = peek();
    if (c == kEnd) {
      fail("a '\\' at the end");
      return {};
    }
    if (c == U'b' && in_class) return ++at_, CodePointSet{{8, 8}};
    if (c == U'b' || c == U'B') {
      refuse("a word boundary");
      return {};
    }
    if ((is_digit(c) && c != U'0') || c == U'k') {
      refuse("a back-reference");
      return {};
    }
    ++at_;
    switch (c) {
      case U'd':
        return digits();
      case U'D':
        return complement(digits());
      case U'w':
        return word_characters();
      case U'W':
        return complement(word_characters());
      case U's':
        return white_space();
      case U'S':
        return complement(white_space());
      case U't':
        return {{'\t', '\t'}};
      case U'n':
        return {{'\n', '\n'}};
      case U'v':
        return {{'\v', '\v'}};
      case U'f':
        return {{'\f', '\f'}};
      case U'r':
        return {{'\r', '\r'}};
      case U'p':
        return property(false);
      case U'P':
        return property(true);
      case U'c':
        return control();
      case U'x':
        return one(hex(2));
      case U'u':
        return one(unicode_escape());
      case U'0':
        if (is_digit(peek())) fail("an octal escape");
        return {{0, 0}};
      default:
        break;
    }
    if (is_letter(c)) {
      --at_;
      fail(std::string("'\\") + static_cast<char>(c) + "' is not an escape that ECMA-262 knows");
      return {};
    }
    return normalized({{c, c}});
  }

  CodePointSet one(std::optional<uint32_t> code_point) {
    if (!code_point) {
      fail("not a hexadecimal code point");
      return {};
    }
    CodePointSet set = normalized({{*code_point, *code_point}});
    if (set.empty()) fail("half of a surrogate pair");
    return set;
  }

  std::optional<uint32_t> hex(size_t digit_count) {
    uint32_t value = 0;
    for (size_t i = 0; i < digit_count; ++i, ++at_) {
      if (!is_hex(peek())) return std::nullopt;
      value = value * 16 + hex_digit(peek());
    }
    return value;
  }
  std::optional<uint32_t> unicode_escape() {
    if (take(U'{')) {
      uint32_t value = 0;
      const size_t begin = at_;
      for (; is_hex(peek()) && value <= kCodePointMax; ++at_) value = value * 16 + hex_digit(peek());
      return at_ == begin || value > kCodePointMax || !take(U'}') ? std::nullopt : std::optional(value);
    }
    const auto first = hex(4);
    const bool is_high = first && *first >= 0xD800 && *first < 0xDC00;
    if (!is_high || peek() != U'\\' || peek(1) != U'u') return first;
    at_ += 2;
    const auto second = hex(4);
    if (!second || *second < 0xDC00 || *second > 0xDFFF) return std::nullopt;
    return 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00);
  }
  CodePointSet control() {
    const char32_t c = peek();
    if (!is_letter(c)) {
      fail("'\\c' without a letter");
      return {};
    }
    ++at_;
    return {{c % 32, c % 32}};
  }
  CodePointSet property(bool negated) {
    std::string name;
    if (!take(U'{')) {
      fail("'\\p' without a '{'");
      return {};
    }
    while (peek() != U'}' && peek() != kEnd && peek() < 0x80) name += static_cast<char>(pattern_[at_++]);
    if (!take(U'}')) {
      fail("a '}' is missing");
      return {};
    }
    const auto set = general_category(name);
    if (!set) {
      refuse("the property '\\p{" + name + "}'");
      return {};
    }
    return negated ? complement(*set) : *set;
  }

  std::u32string pattern_;
  uint32_t depth_max_;
  size_t at_ = 0;
  Status error_;
};

// Nothing: not UTF-8.
std::optional<std::u32string> decode(std::string_view text) {
  std::u32string result;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_first_unit(text);
    if (unit.kind != Utf8Kind::kCharacter) return std::nullopt;
    const auto lead = static_cast<unsigned char>(text[0]);
    char32_t c = unit.size == 1 ? lead : lead & (0xFFU >> (unit.size + 1));
    for (size_t i = 1; i < unit.size; ++i) c = c << 6 | (static_cast<unsigned char>(text[i]) & 0x3FU);
    result += c;
    text.remove_prefix(unit.size);
  }
  return result;
}

}  // namespace

Result<RegexNode> parse_regex(std::string_view pattern, uint32_t depth_max) {
  auto code_points = decode(pattern);
  if (!code_points) return invalid_argument("at 1: the expression is not UTF-8");
  return RegexParser(std::move(*code_points), depth_max).parse();
}

}  // namespace twostroke::grammar
