#include "server/text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/strings.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

constexpr std::int64_t kPrecisionMax = 1000;

// How one value is laid out; both notations are read into it.
struct Spec {
  Text fill = Text(" ", true);
  char align = 0;  // < > ^ =, or 0 for the type's own
  char sign = '-';
  bool alternate = false;  // #
  bool zeros = false;      // numbers are padded between sign and digits
  std::int64_t width = 0;
  char grouping = 0;  // , or _
  std::optional<std::int64_t> precision;
  char type = 0;
};

// The digits at `offset`, which moves behind them; none where there is no digit.
std::optional<std::int64_t> take_number(std::string_view text, std::size_t& offset) {
  if (offset >= text.size() || !utf8::is_ascii_digit(text[offset])) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + offset, text.data() + text.size(), number);
  if (error != std::errc()) fail("Too many decimal digits in format string");
  offset = static_cast<std::size_t>(end - text.data());
  return number;
}

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }

Spec parse_spec(const Text& source) {
  Spec spec;
  const std::string_view text = source.view();
  std::size_t i = 0;
  const auto next = [&](std::string_view set) {
    return i < text.size() && is_one_of(text[i], set) ? text[i++] : char{0};
  };
  const std::size_t first = text.empty() ? 0 : utf8::width(text[0]);
  const bool has_fill = first < text.size() && is_one_of(text[first], "<>^=");
  if (has_fill) {
    spec.fill = source.slice(0, first);
    i = first;
  }
  spec.align = next("<>^=");
  if (const char sign = next("+- ")) spec.sign = sign;
  spec.alternate = next("#") != 0;
  if (!has_fill && next("0") != 0) {
    spec.fill = Text("0", true);
    spec.zeros = spec.align == 0;
  }
  spec.width = take_number(text, i).value_or(0);
  spec.grouping = next(",_");
  if (next(".") != 0) {
    spec.precision = take_number(text, i);
    if (!spec.precision) fail("Format specifier missing precision");
  }
  if (i < text.size()) spec.type = text[i++];
  if (i < text.size()) fail("Invalid format specifier '" + source.bytes() + "'");
  if (spec.precision.value_or(0) > kPrecisionMax) fail("precision too big in format string");
  return spec;
}

Text padded(Runtime& runtime, const Text& text, const Spec& spec, char default_align) {
  const char align = spec.align == 0 ? default_align : spec.align;
  if (align == '^') {
    // Unlike str.center, format puts the extra character behind the text.
    const auto length = static_cast<std::int64_t>(utf8::length(text.view()));
    const std::int64_t padding = std::max<std::int64_t>(spec.width - length, 0);
    Builder out(runtime);
    out.repeat(spec.fill, padding / 2);
    out.append(text);
    out.repeat(spec.fill, padding - padding / 2);
    return out.take();
  }
  return justify(runtime, text, spec.width, align == '<' ? Side::kLeft : Side::kRight, spec.fill);
}

std::string grouped(const std::string& digits, char separator, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

// Puts sign, prefix and digits together and pads between them where the alignment is '='.
Text laid_out_number(Runtime& runtime, bool negative, const std::string& prefix, const std::string& digits,
                     const Spec& spec) {
  std::string head = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += prefix;
  if (spec.align != '=' && !spec.zeros) return padded(runtime, Text(head + digits, true), spec, '>');
  Builder out(runtime);
  out.append(head);
  out.repeat(spec.fill, spec.width - static_cast<std::int64_t>(head.size() + digits.size()));
  out.append(digits);
  return out.take();
}

Text format_integer(Runtime& runtime, std::int64_t number, const Spec& spec) {
  const bool negative = number < 0;
  const std::uint64_t magnitude =
      negative ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number);
  int base = 10;
  std::string prefix;
  switch (spec.type) {
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'x':
    case 'X':
      base = 16;
      prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    default:
      break;
  }
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr;
  std::string digits(buffer, end);
  if (spec.type == 'X')
    std::transform(digits.begin(), digits.end(), digits.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
  const auto digits_min = static_cast<std::size_t>(spec.precision.value_or(0));  // printf style only
  if (digits.size() < digits_min) digits.insert(0, digits_min - digits.size(), '0');
  if (spec.grouping != 0) digits = grouped(digits, spec.grouping, base == 10 ? 3 : 4);
  return laid_out_number(runtime, negative, spec.alternate ? prefix : "", digits, spec);
}

std::string printed(double number, std::int64_t precision, char conversion, bool alternate) {
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + conversion;
  const int length = std::snprintf(nullptr, 0, format.c_str(), static_cast<int>(precision), number);
  std::string digits(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(digits.data(), digits.size(), format.c_str(), static_cast<int>(precision), number);
  digits.pop_back();
  return digits;
}

Text format_float(Runtime& runtime, double number, const Spec& spec) {
  const double magnitude = std::abs(number);
  std::string digits;
  if (spec.type == 0 && !spec.precision) {
    digits = float_repr(magnitude);
  } else if (spec.type == '%') {
    digits = printed(magnitude * 100, spec.precision.value_or(6), 'f', spec.alternate) + "%";
  } else {
    const char conversion = spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
    const std::int64_t precision = spec.precision.value_or(6);
    digits =
        printed(magnitude, conversion == 'g' || conversion == 'G' ? std::max<std::int64_t>(precision, 1) : precision,
                conversion, spec.alternate);
    const bool looks_integer = digits.find_first_not_of("0123456789") == std::string::npos;
    if (spec.type == 0 && looks_integer) digits += ".0";
  }
  if (spec.grouping != 0) {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, whole), spec.grouping, 3) + digits.substr(whole);
  }
  return laid_out_number(runtime, std::signbit(number) && !std::isnan(number), "", digits, spec);
}

Text format_text(Runtime& runtime, const Text& text, const Spec& spec) {
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  if (!spec.precision) return padded(runtime, text, spec, '<');
  const std::size_t end = utf8::offset_of(text.view(), static_cast<std::size_t>(*spec.precision));
  return padded(runtime, text.slice(0, end), spec, '<');
}

[[noreturn]] void fail_code(char type, const Value& value) {
  fail(std::string("Unknown format code '") + type + "' for object of type '" + std::string(type_name(value)) + "'");
}

Text format_character(Runtime& runtime, std::int64_t code, const Spec& spec) {
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < 0 || code > 0x10FFFF || surrogate) fail("%c arg not in range(0x110000)");
  std::string character;
  utf8::append(character, static_cast<char32_t>(code));
  // A number from outside must not spell a control token.
  return padded(runtime, Text(std::move(character), false), spec, '<');
}

// Python's format(value, spec).
Text format_value(Runtime& runtime, const Value& value, const Text& spec_text) {
  if (spec_text.empty()) return to_text(runtime, value);
  const Spec spec = parse_spec(spec_text);
  if (value.is_string()) {
    if (spec.grouping != 0) fail(std::string("Cannot specify '") + spec.grouping + "' with 's'.");
    if (spec.type != 0 && spec.type != 's') fail_code(spec.type, value);
    return format_text(runtime, value.text(), spec);
  }
  if (value.is_integer() && (spec.type == 0 || is_one_of(spec.type, "bdnoxX"))) {
    if (spec.precision) fail("Precision not allowed in integer format specifier");
    if (spec.grouping == ',' && spec.type != 0 && spec.type != 'd') {
      fail(std::string("Cannot specify ',' with '") + spec.type + "'.");
    }
    return format_integer(runtime, value.integer(), spec);
  }
  if (value.is_integer() && spec.type == 'c') return format_character(runtime, value.integer(), spec);
  if (value.is_number() && (spec.type == 0 || is_one_of(spec.type, "eEfFgGn%"))) {
    return format_float(runtime, value.number(), spec);
  }
  if (value.is_number()) fail_code(spec.type, value);
  fail("unsupported format string passed to " + std::string(type_name(value)) + ".__format__");
}

// One pass over a str.format string.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Text& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), view_(format.view()), arguments_(arguments) {}

  Text run() {
    Builder out(runtime_);
    std::size_t literal = 0;
    std::size_t i = 0;
    while (i < view_.size()) {
      if (view_[i] != '{' && view_[i] != '}') {
        ++i;
        continue;
      }
      const bool doubled = i + 1 < view_.size() && view_[i + 1] == view_[i];
      out.append(format_, literal, doubled ? i + 1 : i);
      if (doubled) {
        i += 2;
      } else if (view_[i] == '}') {
        fail("Single '}' encountered in format string");
      } else {
        const std::size_t close = matching_brace(i);
        out.append(field(i + 1, close));
        i = close + 1;
      }
      literal = i;
    }
    out.append(format_, literal, view_.size());
    return out.take();
  }

 private:
  std::size_t matching_brace(std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < view_.size(); ++i) {
      if (view_[i] == '{') ++depth;
      if (view_[i] == '}' && --depth == 0) return i;
    }
    fail("expected '}' before end of string");
  }

  // name[!conversion][:spec]
  Text field(std::size_t begin, std::size_t end) {
    const std::string_view text = view_.substr(begin, end - begin);
    const std::size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = look_up(text.substr(0, name_end));
    std::size_t i = name_end;
    if (i < text.size() && text[i] == '!') {
      const char conversion = i + 1 < text.size() ? text[i + 1] : char{0};
      if (conversion != 'r' && conversion != 's') fail("Unknown conversion specifier in format string");
      value = runtime_.string(conversion == 'r' ? to_repr(runtime_, value) : to_text(runtime_, value));
      i += 2;
    }
    if (i < text.size() && text[i] != ':') fail("expected ':' after conversion specifier");
    if (i >= text.size()) return to_text(runtime_, value);
    const Text spec = format_.slice(begin + i + 1, end);
    if (spec.view().find('{') == std::string_view::npos) return format_value(runtime_, value, spec);
    // A specification may itself hold fields, one level deep.
    if (nested_) fail("Max string recursion exceeded");
    nested_ = true;
    BraceFormatter inner(runtime_, spec, arguments_);
    inner.nested_ = true;
    inner.automatic_ = automatic_;
    const Text filled = inner.run();
    automatic_ = inner.automatic_;
    nested_ = false;
    return format_value(runtime_, value, filled);
  }

  Value look_up(std::string_view name) {
    std::size_t i = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, i));
    while (i < name.size()) {
      if (name[i] == '.') {
        const std::size_t end = std::min(name.find_first_of(".[", i + 1), name.size());
        value = get_attribute(runtime_, value, runtime_.string(std::string(name.substr(i + 1, end - i - 1))));
        i = end;
      } else {
        const std::size_t end = name.find(']', i);
        if (name[i] != '[' || end == std::string_view::npos) fail("Missing ']' in format string");
        value = get_item(runtime_, value, key(name.substr(i + 1, end - i - 1)));
        i = end + 1;
      }
    }
    return value;
  }

  Value key(std::string_view text) const {
    std::size_t end = 0;
    const std::optional<std::int64_t> index = take_number(text, end);
    if (index && end == text.size()) return *index;
    return runtime_.string(std::string(text));
  }

  Value argument(std::string_view name) {
    if (name.empty()) return positional(automatic_++);
    std::size_t end = 0;
    const std::optional<std::int64_t> index = take_number(name, end);
    if (index && end == name.size()) return positional(static_cast<std::size_t>(*index));
    for (const auto& [given, value] : arguments_.named) {
      if (given == name) return value;
    }
    fail("str.format has no argument '" + std::string(name) + "'");
  }

  const Value& positional(std::size_t index) const {
    if (index < arguments_.positional.size()) return arguments_.positional[index];
    fail("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
  }

  Runtime& runtime_;
  const Text& format_;
  const std::string_view view_;
  const Arguments& arguments_;
  std::size_t automatic_ = 0;
  bool nested_ = false;
};

// One pass over a printf-style string.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format), view_(format.view()), values_(values) {}

  Text run() {
    Builder out(runtime_);
    std::size_t literal = 0;
    for (std::size_t i = view_.find('%'); i != std::string_view::npos; i = view_.find('%', literal)) {
      out.append(format_, literal, i);
      i_ = i + 1;
      out.append(conversion());
      literal = i_;
    }
    out.append(format_, literal, view_.size());
    const bool all_used = values_.is_dict() || used_ == count();
    if (!all_used) fail("not all arguments converted during string formatting");
    return out.take();
  }

 private:
  std::size_t count() const { return values_.is_tuple() ? values_.tuple()->items.size() : 1; }

  Value next_value() {
    if (used_ >= count()) fail("not enough arguments for format string");
    const std::size_t index = used_++;
    return values_.is_tuple() ? values_.tuple()->items[index] : values_;
  }

  char peek() const {
    if (i_ >= view_.size()) fail("incomplete format");
    return view_[i_];
  }

  std::int64_t number_or_star() {
    if (peek() != '*') return take_number(view_, i_).value_or(0);
    ++i_;
    const Value value = next_value();
    if (!value.is_integer()) fail("* wants int");
    return value.integer();
  }

  // What follows a '%'.
  Text conversion() {
    if (peek() == '%') {
      ++i_;
      return format_.slice(i_ - 1, i_);
    }
    std::optional<Value> named;
    if (peek() == '(') {
      const std::size_t close = view_.find(')', i_);
      if (close == std::string_view::npos) fail("incomplete format key");
      if (!values_.is_dict()) fail("format requires a mapping");
      const std::string_view name = view_.substr(i_ + 1, close - i_ - 1);
      const Value* const found = values_.dict()->find(name);
      if (found == nullptr) fail("the format string names '" + std::string(name) + "', which is not given");
      named = *found;
      i_ = close + 1;
    }
    Spec spec;
    bool left = false;
    bool zero = false;
    for (; is_one_of(peek(), "-+ #0"); ++i_) {
      left = left || peek() == '-';
      zero = zero || peek() == '0';
      spec.alternate = spec.alternate || peek() == '#';
      if (peek() == '+' || (peek() == ' ' && spec.sign != '+')) spec.sign = peek();
    }
    spec.width = number_or_star();
    if (spec.width < 0) {
      left = true;
      spec.width = -std::max<std::int64_t>(spec.width, -(std::int64_t{1} << 40));
    }
    if (peek() == '.') {
      ++i_;
      spec.precision = std::max<std::int64_t>(number_or_star(), 0);
      if (*spec.precision > kPrecisionMax && peek() != 's' && peek() != 'r') fail("precision too big in format string");
    }
    while (is_one_of(peek(), "hlL")) ++i_;
    spec.type = peek();
    ++i_;
    spec.align = left ? '<' : '>';
    if (zero && !left && !is_one_of(spec.type, "srac")) {
      spec.zeros = true;
      spec.fill = Text("0", true);
    }
    return converted(named ? *std::move(named) : next_value(), spec);
  }

  Text converted(const Value& value, Spec& spec) {
    switch (spec.type) {
      case 's':
        return format_text(runtime_, to_text(runtime_, value), spec);
      case 'r':
        return format_text(runtime_, to_repr(runtime_, value), spec);
      case 'c':
        if (value.is_string()) return format_text(runtime_, value.text(), spec);
        if (!value.is_integer()) fail("%c requires int or char");
        return format_character(runtime_, value.integer(), spec);
      case 'd':
      case 'i':
      case 'u':
        return format_integer(runtime_, whole(value, spec.type), spec);
      case 'o':
      case 'x':
      case 'X':
        if (!value.is_integer()) fail_needs(value, spec.type, "an integer is required");
        return format_integer(runtime_, value.integer(), spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (value.is_undefined()) fail(*value.undefined().message);
        if (!value.is_number()) fail("must be real number, not " + std::string(type_name(value)));
        return format_float(runtime_, value.number(), spec);
      default:
        fail(std::string("unsupported format character '") + spec.type + "'");
    }
  }

  [[noreturn]] static void fail_needs(const Value& value, char type, const char* what) {
    if (value.is_undefined()) fail(*value.undefined().message);
    fail(std::string("%") + type + " format: " + what + ", not " + std::string(type_name(value)));
  }

  static std::int64_t whole(const Value& value, char type) {
    if (value.is_integer()) return value.integer();
    if (!value.is_float()) fail_needs(value, type, "a real number is required");
    const double number = std::trunc(value.number());
    if (!(std::abs(number) < 9.2e18)) fail("the number does not fit 64 bits");
    return static_cast<std::int64_t>(number);
  }

  Runtime& runtime_;
  const Text& format_;
  const std::string_view view_;
  const Value& values_;
  std::size_t used_ = 0;
  std::size_t i_ = 0;
};

}  // namespace

Text format_braces(Runtime& runtime, const Text& format, const Arguments& arguments) {
  return BraceFormatter(runtime, format, arguments).run();
}

Text format_percent(Runtime& runtime, const Text& format, const Value& values) {
  return PercentFormatter(runtime, format, values).run();
}

}  // namespace twostroke::jinja
