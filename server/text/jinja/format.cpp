#include "server/text/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/format_spec.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

// One pass over a str.format string.
class BraceFormatter {
  enum class Numbering : std::uint8_t { kNone, kAutomatic, kManual };

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
      if (!is_one_of(conversion, "rsa")) fail("Unknown conversion specifier in format string");
      value = runtime_.string(conversion == 'r'   ? to_repr(runtime_, value)
                              : conversion == 'a' ? to_ascii(runtime_, value)
                                                  : to_text(runtime_, value));
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
    inner.numbering_ = numbering_;
    const Text filled = inner.run();
    automatic_ = inner.automatic_;
    numbering_ = inner.numbering_;
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
    if (name.empty()) return positional(numbered(Numbering::kAutomatic, automatic_++));
    std::size_t end = 0;
    const std::optional<std::int64_t> index = take_number(name, end);
    if (index && end == name.size()) {
      return positional(numbered(Numbering::kManual, static_cast<std::size_t>(*index)));
    }
    for (const auto& [given, value] : arguments_.named) {
      if (given == name) return value;
    }
    fail("str.format has no argument '" + std::string(name) + "'");
  }

  std::size_t numbered(Numbering by, std::size_t index) {
    if (numbering_ != Numbering::kNone && numbering_ != by) {
      fail("cannot mix fields with numbers and without in one format string");
    }
    numbering_ = by;
    return index;
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
  Numbering numbering_ = Numbering::kNone;
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
    // What can be subscripted may name more than is used; as in Python, that takes in lists.
    const bool all_used = values_.is_dict() || values_.is_list() || used_ == count();
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
      case 'a':
        return format_text(runtime_, to_ascii(runtime_, value), spec);
      case 'c':
        spec.precision.reset();  // it has none
        if (value.is_string() && utf8::length(value.view()) == 1) return format_text(runtime_, value.text(), spec);
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
