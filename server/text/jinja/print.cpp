#include "server/text/jinja/print.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

void append_hex_escape(std::string& out, char32_t character) {
  char escape[16];
  const char* const format = character < 0x100 ? "\\x%02x" : character < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(escape, sizeof(escape), format, static_cast<unsigned>(character));
  out += escape;
}

std::string repr_of_character(char32_t character, char quote) {
  std::string out;
  switch (character) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  if (character == static_cast<char32_t>(quote)) {
    out = {'\\', quote};
  } else if (utf8::is_printable(character)) {
    utf8::append(out, character);
  } else {
    append_hex_escape(out, character);
  }
  return out;
}

void append_string_repr(Builder& out, const Text& text) {
  const std::string_view view = text.view();
  const bool double_quotes = view.find('\'') != std::string_view::npos && view.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  std::size_t offset = 0;
  for (const Text::Run& run : text.runs()) {
    std::string escaped;
    for (; offset < run.end; offset += utf8::width(view[offset])) {
      escaped += repr_of_character(utf8::decode(view, offset), quote);
    }
    out.append(escaped, run.trusted);
  }
  out.append(std::string_view(&quote, 1));
}

void append_items(Runtime& runtime, Builder& out, const std::vector<Value>& items) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(runtime, out, items[i]);
  }
}

void append_dict(Runtime& runtime, Builder& out, const Dict& dict) {
  out.append("{");
  for (std::size_t i = 0; i < dict.size(); ++i) {
    const auto& [key, value] = dict.entries()[i];
    if (i > 0) out.append(", ");
    append_repr(runtime, out, key);
    out.append(": ");
    append_repr(runtime, out, value);
  }
  out.append("}");
}

}  // namespace

void append_str(Runtime& runtime, Builder& out, const Value& value) {
  if (value.is_string()) {
    out.append(value.text());
  } else if (!value.is_undefined()) {
    append_repr(runtime, out, value);
  }
}

void append_repr(Runtime& runtime, Builder& out, const Value& value) {
  Budget::Level level(runtime.budget());
  runtime.budget().step();
  if (value.is_none()) {
    out.append("None");
  } else if (value.is_undefined()) {
    out.append("Undefined");
  } else if (value.is_bool()) {
    out.append(value.boolean() ? "True" : "False");
  } else if (value.is_integer()) {
    out.append(std::to_string(value.integer()));
  } else if (value.is_float()) {
    out.append(float_repr(value.number()));
  } else if (value.is_markup()) {
    out.append("Markup(");
    append_string_repr(out, value.text());
    out.append(")");
  } else if (value.is_string()) {
    append_string_repr(out, value.text());
  } else if (value.is_list()) {
    out.append("[");
    append_items(runtime, out, value.list()->items);
    out.append("]");
  } else if (value.is_tuple()) {
    out.append("(");
    append_items(runtime, out, value.tuple()->items);
    out.append(value.tuple()->items.size() == 1 ? ",)" : ")");
  } else if (value.is_dict()) {
    append_dict(runtime, out, *value.dict());
  } else {
    out.append(value.object()->description(runtime));
  }
}

Text to_text(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.text();
  Builder out(runtime);
  append_str(runtime, out, value);
  return out.take();
}

Value to_string_value(Runtime& runtime, const Value& value) {
  return value.is_string() ? value : runtime.string(to_text(runtime, value));
}

Text to_repr(Runtime& runtime, const Value& value) {
  Builder out(runtime);
  append_repr(runtime, out, value);
  return out.take();
}

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number, std::chars_format::scientific).ptr;
  std::string scientific(buffer, end);
  const std::size_t mark = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(mark + 1));
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) return scientific;
  std::string digits = scientific.substr(0, mark);
  const std::string sign = digits.front() == '-' ? "-" : "";
  digits.erase(0, sign.size());
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace twostroke::jinja
