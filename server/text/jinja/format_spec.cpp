#include "server/text/jinja/format_spec.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/strings.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {

std::optional<std::int64_t> take_number(std::string_view text, std::size_t& offset) {
  if (offset >= text.size() || !utf8::is_ascii_digit(text[offset])) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + offset, text.data() + text.size(), number);
  if (error != std::errc()) fail("Too many decimal digits in format string");
  offset = static_cast<std::size_t>(end - text.data());
  return number;
}

namespace {

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
  if (const char sign = next("+- ")) {
    spec.sign = sign;
    spec.has_sign = true;
  }
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

// The padding is part of the digits, and grouped with them.
bool pads_with_zeros(const Spec& spec) { return spec.zeros || (spec.align == '=' && spec.fill.view() == "0"); }

// As `grouped`, with zeros in front that bring it to `width`; one more where a separator would come first.
std::string zero_grouped(std::string digits, char separator, std::size_t size, std::int64_t width) {
  const auto needed = static_cast<std::size_t>(std::clamp<std::int64_t>(width, 0, kPrecisionMax));
  while (digits.size() + (digits.size() - 1) / size < needed) digits.insert(0, 1, '0');
  return grouped(digits, separator, size);
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

}  // namespace

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
  if (!spec.alternate) prefix.clear();
  if (spec.grouping != 0) {
    const std::size_t size = base == 10 ? 3 : 4;
    const auto head = static_cast<std::int64_t>(prefix.size()) + (negative || spec.sign != '-' ? 1 : 0);
    digits = pads_with_zeros(spec) ? zero_grouped(digits, spec.grouping, size, spec.width - head)
                                   : grouped(digits, spec.grouping, size);
  }
  return laid_out_number(runtime, negative, prefix, digits, spec);
}

namespace {

std::string printed(double number, std::int64_t precision, char conversion, bool alternate) {
  const std::string format = std::string("%") + (alternate ? "#" : "") + ".*" + conversion;
  const int length = std::snprintf(nullptr, 0, format.c_str(), static_cast<int>(precision), number);
  std::string digits(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(digits.data(), digits.size(), format.c_str(), static_cast<int>(precision), number);
  digits.pop_back();
  return digits;
}

// Of a float with a precision and no type: as 'g', but there is always a digit behind the point, and the exponent is
// written where there would be no room for it.
std::string without_type(std::string general, double magnitude, std::int64_t precision, bool alternate) {
  if (general.find('e') != std::string::npos) return general;
  const std::int64_t digits = std::max<std::int64_t>(precision, 1);
  std::string scientific = printed(magnitude, digits - 1, 'e', alternate);
  const std::size_t mark = scientific.find('e');
  if (std::stoi(scientific.substr(mark + 1)) < digits - 1) return general;
  if (alternate || scientific.find('.') == std::string::npos) return scientific;
  const std::size_t last = scientific.find_last_not_of('0', mark - 1);
  const std::size_t end = scientific[last] == '.' ? last : last + 1;
  return scientific.substr(0, end) + scientific.substr(mark);
}

}  // namespace

Text format_float(Runtime& runtime, double number, const Spec& spec) {
  const double magnitude = std::abs(number);
  const bool negative = std::signbit(number) && !std::isnan(number);
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
    if (spec.type == 0 && std::isfinite(number)) digits = without_type(digits, magnitude, precision, spec.alternate);
    const bool looks_integer = digits.find_first_not_of("0123456789") == std::string::npos;
    if (spec.type == 0 && looks_integer) digits += ".0";
  }
  if (spec.grouping != 0) {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    const std::string tail = digits.substr(whole);
    digits.resize(whole);
    const auto rest = static_cast<std::int64_t>(tail.size()) + (negative || spec.sign != '-' ? 1 : 0);
    if (whole > 0) {
      digits = pads_with_zeros(spec) ? zero_grouped(digits, spec.grouping, 3, spec.width - rest)
                                     : grouped(digits, spec.grouping, 3);
    }
    digits += tail;
  }
  return laid_out_number(runtime, negative, "", digits, spec);
}

Text format_text(Runtime& runtime, const Text& text, const Spec& spec) {
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  if (!spec.precision) return padded(runtime, text, spec, '<');
  const std::size_t end = utf8::offset_of(text.view(), static_cast<std::size_t>(*spec.precision));
  return padded(runtime, text.slice(0, end), spec, '<');
}

namespace {

[[noreturn]] void fail_code(char type, const Value& value) {
  fail(std::string("Unknown format code '") + type + "' for object of type '" + std::string(type_name(value)) + "'");
}

[[noreturn]] void fail_grouping(const Spec& spec) {
  fail(std::string("Cannot specify '") + spec.grouping + "' with '" + (spec.type == 0 ? 's' : spec.type) + "'.");
}

}  // namespace

Text format_character(Runtime& runtime, std::int64_t code, const Spec& spec) {
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < 0 || code > 0x10FFFF || surrogate) fail("%c arg not in range(0x110000)");
  std::string character;
  utf8::append(character, static_cast<char32_t>(code));
  // A number from outside must not spell a control token.
  return padded(runtime, Text(std::move(character), false), spec, '>');
}

Text to_ascii(Runtime& runtime, const Value& value) {
  const Text repr = to_repr(runtime, value);
  const std::string_view view = repr.view();
  Builder out(runtime);
  for (std::size_t offset = 0; offset < view.size();) {
    const std::size_t end = offset + utf8::width(view[offset]);
    const auto character = static_cast<unsigned>(utf8::decode(view, offset));
    if (character < 0x80) {
      out.append(repr, offset, end);
    } else {
      char escape[12];
      const char* const form = character < 0x100 ? "\\x%02x" : character < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape, sizeof(escape), form, character);
      out.append(escape, repr.trusted_at(offset));
    }
    offset = end;
  }
  return out.take();
}

Text format_value(Runtime& runtime, const Value& value, const Text& spec_text) {
  if (spec_text.empty()) return to_text(runtime, value);
  const Spec spec = parse_spec(spec_text);
  if (value.is_string()) {
    if (spec.has_sign) {
      fail(std::string(spec.sign == ' ' ? "Space" : "Sign") + " not allowed in string format specifier");
    }
    if (spec.alternate) fail("Alternate form (#) not allowed in string format specifier");
    if (spec.grouping != 0) fail_grouping(spec);
    if (spec.type != 0 && spec.type != 's') fail_code(spec.type, value);
    return format_text(runtime, value.text(), spec);
  }
  if (value.is_integer() && (spec.type == 0 || is_one_of(spec.type, "bdnoxX"))) {
    if (spec.precision) fail("Precision not allowed in integer format specifier");
    if ((spec.grouping == ',' && spec.type != 0 && spec.type != 'd') || (spec.grouping != 0 && spec.type == 'n')) {
      fail_grouping(spec);
    }
    return format_integer(runtime, value.integer(), spec);
  }
  if (value.is_integer() && spec.type == 'c') {
    if (spec.has_sign) fail("Sign not allowed with integer format specifier 'c'");
    if (spec.alternate) fail("Alternate form (#) not allowed with integer format specifier 'c'");
    if (spec.precision) fail("Precision not allowed in integer format specifier");
    if (spec.grouping != 0) fail_grouping(spec);
    return format_character(runtime, value.integer(), spec);
  }
  if (value.is_number() && (spec.type == 0 || is_one_of(spec.type, "eEfFgGn%"))) {
    if (spec.grouping != 0 && spec.type == 'n') fail_grouping(spec);
    return format_float(runtime, value.number(), spec);
  }
  if (value.is_number()) fail_code(spec.type, value);
  fail("unsupported format string passed to " + std::string(type_name(value)) + ".__format__");
}

}  // namespace twostroke::jinja
