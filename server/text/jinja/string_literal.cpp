#include "server/text/jinja/string_literal.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "server/text/jinja/failure.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

class Unescaper {
 public:
  Unescaper(std::string_view body, int line) : body_(body), line_(line) {}

  std::string run() {
    while (i_ < body_.size()) {
      const std::size_t slash = std::min(body_.find('\\', i_), body_.size());
      out_ += body_.substr(i_, slash - i_);
      i_ = slash;
      if (i_ < body_.size()) escape();
    }
    return std::move(out_);
  }

 private:
  void escape() {
    const char kind = i_ + 1 < body_.size() ? body_[i_ + 1] : '\0';
    i_ += 2;
    switch (kind) {
      case '\n':
        return;  // a line end behind a backslash disappears
      case '\\':
      case '\'':
      case '"':
        out_ += kind;
        return;
      case 'a':
        out_ += '\a';
        return;
      case 'b':
        out_ += '\b';
        return;
      case 'f':
        out_ += '\f';
        return;
      case 'n':
        out_ += '\n';
        return;
      case 'r':
        out_ += '\r';
        return;
      case 't':
        out_ += '\t';
        return;
      case 'v':
        out_ += '\v';
        return;
      case 'x':
        return append(hex(2));
      case 'u':
        return append_utf16();
      case 'U':
        return append(hex(8));
      case 'N':
        fail_at(line_, "the escape \\N{...} is not supported; write the character, or \\u and its number");
      default:
        break;
    }
    if (kind >= '0' && kind <= '7') return append(octal());
    out_ += '\\';
    --i_;  // whatever follows stays as it is
  }

  std::uint32_t hex(std::size_t digits) {
    std::uint32_t value = 0;
    const std::string_view text = body_.substr(i_, digits);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() < digits || error != std::errc() || end != text.data() + digits) {
      fail_at(line_, "a string has an escape with too few hexadecimal digits");
    }
    i_ += digits;
    return value;
  }

  std::uint32_t octal() {
    --i_;
    std::uint32_t value = 0;
    for (std::size_t end = i_ + 3; i_ < end && i_ < body_.size() && body_[i_] >= '0' && body_[i_] <= '7'; ++i_) {
      value = value * 8 + static_cast<std::uint32_t>(body_[i_] - '0');
    }
    return value;
  }

  // Two escapes of a surrogate pair make one character.
  void append_utf16() {
    const std::uint32_t first = hex(4);
    const bool leads = first >= 0xD800 && first < 0xDC00 && body_.substr(i_).starts_with("\\u");
    if (!leads) return append(first);
    i_ += 2;
    const std::uint32_t second = hex(4);
    if (second < 0xDC00 || second > 0xDFFF) fail_surrogate();
    append(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00));
  }

  void append(std::uint32_t character) {
    if (character >= 0xD800 && character < 0xE000) fail_surrogate();
    if (character > 0x10FFFF) fail_at(line_, "a string has an escape beyond U+10FFFF");
    utf8::append(out_, static_cast<char32_t>(character));
  }

  [[noreturn]] void fail_surrogate() const { fail_at(line_, "a string has half of a surrogate pair"); }

  const std::string_view body_;
  const int line_;
  std::size_t i_ = 0;
  std::string out_;
};

}  // namespace

std::string unescape(std::string_view body, int line) { return Unescaper(body, line).run(); }

}  // namespace twostroke::jinja
