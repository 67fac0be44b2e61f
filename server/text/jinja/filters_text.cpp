// Filters on strings. What is not a string is printed first, as in Jinja2.
#include <algorithm>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/filter_table.h"
#include "server/text/jinja/format.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/strings.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

Text text_of(Runtime& runtime, const Parameters& parameters, std::size_t index) {
  return to_text(runtime, parameters.require(index));
}

// Of a filter's result: markup stays markup.
Value like(Runtime& runtime, const Parameters& parameters, Text text) {
  return runtime.string(std::move(text), parameters.require(0).is_markup());
}

Value filter_capitalize(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'capitalize'", arguments, {"s"});
  return like(runtime, parameters, map_case(runtime, text_of(runtime, parameters, 0), CaseMapping::kCapitalize));
}

Value filter_lower(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'lower'", arguments, {"s"});
  return like(runtime, parameters, map_case(runtime, text_of(runtime, parameters, 0), CaseMapping::kLower));
}

Value filter_upper(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'upper'", arguments, {"s"});
  return like(runtime, parameters, map_case(runtime, text_of(runtime, parameters, 0), CaseMapping::kUpper));
}

// Words begin behind white space, hyphens and opening brackets only.
Value filter_title(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'title'", arguments, {"s"});
  const Text text = text_of(runtime, parameters, 0);
  const std::string_view view = text.view();
  Builder out(runtime);
  bool starts = true;
  for (std::size_t offset = 0; offset < view.size();) {
    const std::size_t end = offset + utf8::width(view[offset]);
    std::string mapped;
    const char32_t character = utf8::decode(view, offset);
    if (starts) {
      utf8::append_upper(mapped, character);
    } else {
      append_lower_at(mapped, view, offset, end);
    }
    out.append(mapped, text.trusted_at(offset));
    starts = utf8::is_space(character) || std::string_view("-({[<").find(view[offset]) != std::string_view::npos;
    offset = end;
  }
  return runtime.string(out.take());
}

Value filter_center(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'center'", arguments, {"value", "width"});
  const Text text = text_of(runtime, parameters, 0);
  return like(runtime, parameters, justify(runtime, text, parameters.integer(1, 80), Side::kBoth, Text(" ", true)));
}

Value filter_format(Runtime& runtime, const Arguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.named.empty()) {
    fail("filter 'format' can't handle positional and keyword arguments at the same time");
  }
  const Text format = to_text(runtime, arguments.positional.front());
  Value values;
  if (arguments.named.empty()) {
    values = runtime.tuple({arguments.positional.begin() + 1, arguments.positional.end()});
  } else {
    Dict* const dict = runtime.dict();
    runtime.set_named(*dict, arguments);
    values = dict;
  }
  return runtime.string(format_percent(runtime, format, values), arguments.positional.front().is_markup());
}

Value filter_indent(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'indent'", arguments, {"s", "width", "first", "blank"});
  const Value& value = parameters.require(0);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_string()) fail("filter 'indent' needs a str, not " + std::string(type_name(value)));
  const bool first = parameters.truth(2, false);
  const bool blank = parameters.truth(3, false);
  const Value* const width = parameters.find(1);
  Text indention;
  if (width != nullptr && width->is_string()) {
    indention = width->text();
  } else {
    Builder spaces(runtime);
    spaces.repeat(Text(" ", true), parameters.integer(1, 4));
    indention = spaces.take();
  }
  Text padded = value.text();
  padded.append("\n", true);
  const std::vector<Text> lines = split_lines(runtime, padded);
  Builder out(runtime);
  if (first) out.append(indention);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    if (i > 0 && (blank || !lines[i].empty())) out.append(indention);
    out.append(lines[i]);
  }
  return like(runtime, parameters, out.take());
}

Value filter_replace(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'replace'", arguments, {"s", "old", "new", "count"});
  const Value* const count = parameters.find(3);
  const std::int64_t count_max = count == nullptr || count->is_none() ? -1 : parameters.integer(3, -1);
  return runtime.string(replace(runtime, text_of(runtime, parameters, 0), text_of(runtime, parameters, 1),
                                text_of(runtime, parameters, 2), count_max));
}

Value filter_string(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'string'", arguments, {"object"});
  return to_string_value(runtime, parameters.require(0));
}

Value filter_trim(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'trim'", arguments, {"value", "chars"});
  const Text text = text_of(runtime, parameters, 0);
  const Value* const characters = parameters.find(1);
  if (characters == nullptr || characters->is_none()) {
    return like(runtime, parameters, strip(runtime, text, Side::kBoth, {}));
  }
  if (!characters->is_string())
    fail("filter 'trim' needs a str of characters, not " + std::string(type_name(*characters)));
  return like(runtime, parameters, strip(runtime, text, Side::kBoth, characters->view()));
}

Value filter_truncate(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'truncate'", arguments, {"s", "length", "killwords", "end", "leeway"});
  const Value& value = parameters.require(0);
  const Text end = parameters.find(3) == nullptr ? Text("...", true) : text_of(runtime, parameters, 3);
  const auto count = static_cast<std::int64_t>(require_length(runtime, value));
  const auto end_count = static_cast<std::int64_t>(utf8::length(end.view()));
  const std::int64_t length = parameters.integer(1, 255);
  const Value* const given_leeway = parameters.find(4);
  const std::int64_t leeway = given_leeway == nullptr || given_leeway->is_none() ? 5 : parameters.integer(4, 5);
  if (length < end_count) fail("filter 'truncate': the length is less than that of the end");
  if (leeway < 0) fail("filter 'truncate': the leeway is negative");
  if (count - leeway <= length) return value;
  if (!value.is_string()) fail("filter 'truncate' needs a str, not " + std::string(type_name(value)));
  const Text& text = value.text();
  const std::size_t cut = utf8::offset_of(text.view(), static_cast<std::size_t>(length - end_count));
  std::size_t kept = cut;
  if (!parameters.truth(2, false)) kept = std::min(text.view().substr(0, cut).rfind(' '), cut);
  Builder out(runtime);
  out.append(text, 0, kept);
  out.append(end);
  return like(runtime, parameters, out.take());
}

Value filter_wordcount(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'wordcount'", arguments, {"s"});
  const Text text = text_of(runtime, parameters, 0);
  runtime.budget().step_bytes(text.size());
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t offset = 0; offset < text.size(); offset += utf8::width(text.view()[offset])) {
    const char32_t character = utf8::decode(text.view(), offset);
    const bool is_word = character == '_' || utf8::is_alnum(character);
    if (is_word && !inside) ++words;
    inside = is_word;
  }
  return words;
}

constexpr FilterEntry kTextFilters[] = {
    {"capitalize", filter_capitalize}, {"center", filter_center}, {"format", filter_format},
    {"indent", filter_indent},         {"lower", filter_lower},   {"replace", filter_replace},
    {"string", filter_string},         {"title", filter_title},   {"trim", filter_trim},
    {"truncate", filter_truncate},     {"upper", filter_upper},   {"wordcount", filter_wordcount},
};

}  // namespace

FilterFunction find_text_filter(std::string_view name) { return find_in_table(kTextFilters, name); }

}  // namespace twostroke::jinja
