#include "server/text/jinja/tojson.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

void append_unit(std::string& out, unsigned unit) {
  char escape[16];
  std::snprintf(escape, sizeof(escape), "\\u%04x", unit);
  out += escape;
}

void append_character(std::string& out, char32_t character, bool ensure_ascii) {
  switch (character) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\b':
      out += "\\b";
      return;
    default:
      break;
  }
  if (character >= 0x20 && (character < 0x7F || !ensure_ascii)) {
    utf8::append(out, character);
  } else if (character < 0x10000) {
    append_unit(out, static_cast<unsigned>(character));
  } else {  // a surrogate pair
    append_unit(out, 0xD800 + static_cast<unsigned>((character - 0x10000) >> 10));
    append_unit(out, 0xDC00 + static_cast<unsigned>((character - 0x10000) & 0x3FF));
  }
}

std::string json_float(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return float_repr(number);
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonOptions& options) : runtime_(runtime), options_(options), out_(runtime) {}

  void write(const Value& value) {
    Budget::Level level(runtime_.budget());
    runtime_.budget().step();
    if (value.is_string()) {
      write_string(value.text());
    } else if (value.items() != nullptr) {
      write_array(*value.items());
    } else if (value.is_dict()) {
      write_object(*value.dict());
    } else {
      out_.append(scalar(value, "Object of type " + std::string(type_name(value)) + " is not JSON serializable"));
    }
  }

  Text take() { return out_.take(); }

 private:
  static std::string scalar(const Value& value, const std::string& otherwise) {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.integer());
    if (value.is_float()) return json_float(value.number());
    fail(otherwise);
  }

  void write_string(const Text& text) {
    const std::string_view view = text.view();
    out_.append("\"");
    std::size_t offset = 0;
    for (const Text::Run& run : text.runs()) {
      std::string escaped;
      escaped.reserve(run.end - offset);
      for (; offset < run.end; offset += utf8::width(view[offset])) {
        append_character(escaped, utf8::decode(view, offset), options_.ensure_ascii);
      }
      out_.append(escaped, run.trusted);
    }
    out_.append("\"");
  }

  void new_line() {
    if (!options_.indent) return;
    out_.append("\n");
    out_.repeat(*options_.indent, level_);
  }

  void write_array(const std::vector<Value>& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.append(options_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.text());
    out_.append("\"");
    out_.append(scalar(key, "keys must be str, int, float, bool or None, not " + std::string(type_name(key))));
    out_.append("\"");
  }

  void write_object(const Dict& dict) {
    if (dict.size() == 0) return out_.append("{}");
    out_.append("{");
    ++level_;
    const std::vector<std::size_t> order = key_order(dict);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto& [key, value] = dict.entries()[order[i]];
      if (i > 0) out_.append(options_.item_separator);
      new_line();
      write_key(key);
      out_.append(options_.key_separator);
      write(value);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  std::vector<std::size_t> key_order(const Dict& dict) {
    std::vector<std::size_t> order(dict.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (options_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) {
        return less(runtime_, dict.entries()[left].first, dict.entries()[right].first);
      });
    }
    return order;
  }

  Runtime& runtime_;
  const JsonOptions& options_;
  Builder out_;
  std::int64_t level_ = 0;
};

}  // namespace

Text to_json(Runtime& runtime, const Value& value, const JsonOptions& options) {
  JsonWriter writer(runtime, options);
  writer.write(value);
  return writer.take();
}

Value filter_tojson(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'tojson'", arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = parameters.truth(1, false);
  options.sort_keys = parameters.truth(4, false);
  if (const Value* indent = parameters.find(2); indent != nullptr && !indent->is_none()) {
    options.item_separator = Text(",", true);
    if (indent->is_string()) {
      options.indent = indent->text();
    } else {
      Builder spaces(runtime);
      spaces.repeat(Text(" ", true), parameters.integer(2, 0));
      options.indent = spaces.take();
    }
  }
  if (const Value* separators = parameters.find(3); separators != nullptr && !separators->is_none()) {
    const std::vector<Value> pair = iterate(runtime, *separators);
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      fail("filter 'tojson': separators must be two strings");
    }
    options.item_separator = pair[0].text();
    options.key_separator = pair[1].text();
  }
  return runtime.string(to_json(runtime, parameters.require(0), options));
}

}  // namespace twostroke::jinja
