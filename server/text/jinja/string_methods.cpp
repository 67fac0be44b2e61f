// The methods of Python's str.
#include <algorithm>
#include <iterator>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/format.h"
#include "server/text/jinja/methods.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/strings.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

// Of the result of a method of `self`: markup stays markup.
Value like(Runtime& runtime, const Value& self, Text text) { return runtime.string(std::move(text), self.is_markup()); }

const Value& require_string(const Parameters& parameters, std::size_t index) {
  const Value& value = parameters.require(index);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_string()) {
    fail(std::string(parameters.function()) + " needs a str, not " + std::string(type_name(value)));
  }
  return value;
}

// A string argument that becomes part of the result: escaped where the result is markup and it is not.
Text part(Runtime& runtime, const Value& self, const Value& argument) {
  if (!self.is_markup() || argument.is_markup()) return argument.text();
  Builder out(runtime);
  append_escaped(out, argument.text());
  return out.take();
}

Value strings(Runtime& runtime, const Value& self, std::vector<Text> parts) {
  std::vector<Value> values;
  values.reserve(parts.size());
  for (Text& text : parts) values.push_back(like(runtime, self, std::move(text)));
  return runtime.list(std::move(values));
}

// Python's optional arguments start and end, which cut the string before it is searched. Gives the byte interval.
std::pair<std::size_t, std::size_t> searched(const Parameters& parameters, const Value& self) {
  const std::string_view view = self.view();
  const auto count = static_cast<std::int64_t>(utf8::length(view));
  const auto bound = [&](std::size_t index, std::int64_t fallback) {
    const Value* const value = parameters.find(index);
    std::int64_t position = value == nullptr || value->is_none() ? fallback : parameters.integer(index, fallback);
    if (position < 0) position += count;
    return std::clamp<std::int64_t>(position, 0, count);
  };
  const std::size_t begin = utf8::offset_of(view, static_cast<std::size_t>(bound(1, 0)));
  return {begin, utf8::offset_of(view, static_cast<std::size_t>(bound(2, count)))};
}

template <CaseMapping mapping>
Value mapped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("this method of str", arguments, {});
  return like(runtime, self, map_case(runtime, self.text(), mapping));
}

template <Side side>
Value stripped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("strip()", arguments, {"chars"});
  const Value* const given = parameters.find(0);
  if (given == nullptr || given->is_none()) return like(runtime, self, strip(runtime, self.text(), side, {}));
  return like(runtime, self, strip(runtime, self.text(), side, require_string(parameters, 0).view()));
}

template <Side from>
Value split_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("split()", arguments, {"sep", "maxsplit"});
  const Value* const separator = parameters.find(0);
  const bool at_space = separator == nullptr || separator->is_none();
  const Text* const text = at_space ? nullptr : &require_string(parameters, 0).text();
  return strings(runtime, self, split(runtime, self.text(), text, parameters.integer(1, -1), from));
}

Value splitlines(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("splitlines()", arguments, {"keepends"});
  return strings(runtime, self, split_lines(runtime, self.text(), parameters.truth(0, false)));
}

template <bool first>
Value partition(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("partition()", arguments, {"sep"});
  const std::string_view separator = require_string(parameters, 0).view();
  if (separator.empty()) fail("empty separator");
  runtime.budget().step_bytes(self.text().size());
  const std::size_t at = first ? utf8::find(self.view(), separator) : utf8::rfind(self.view(), separator);
  const Text& text = self.text();
  if (at == std::string_view::npos) {
    const Value empty = like(runtime, self, Text());
    return first ? runtime.tuple({self, empty, empty}) : runtime.tuple({empty, empty, self});
  }
  const std::size_t end = at + separator.size();
  return runtime.tuple({like(runtime, self, text.slice(0, at)), like(runtime, self, text.slice(at, end)),
                        like(runtime, self, text.slice(end, text.size()))});
}

Value replace_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("replace()", arguments, {"old", "new", "count"});
  const Value& old = require_string(parameters, 0);
  const Value& replacement = require_string(parameters, 1);
  return like(runtime, self,
              replace(runtime, self.text(), old.text(), part(runtime, self, replacement), parameters.integer(2, -1)));
}

template <bool at_start>
Value has_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters(at_start ? "startswith()" : "endswith()", arguments, {"prefix", "start", "end"});
  const auto [begin, end] = searched(parameters, self);
  const bool is_range = begin <= end;
  const std::string_view view = is_range ? self.view().substr(begin, end - begin) : std::string_view();
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      fail(std::string(parameters.function()) + " first arg must be str or a tuple of str, not " +
           std::string(type_name(affix)));
    }
    runtime.budget().step_bytes(affix.text().size());
    return is_range && (at_start ? view.starts_with(affix.view()) : view.ends_with(affix.view()));
  };
  const Value& affix = parameters.require(0);
  if (affix.is_undefined()) fail(*affix.undefined().message);
  if (!affix.is_tuple()) return matches(affix);
  return std::any_of(affix.tuple()->items.begin(), affix.tuple()->items.end(), matches);
}

template <bool at_start>
Value remove_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters(at_start ? "removeprefix()" : "removesuffix()", arguments, {"affix"});
  const std::string_view affix = require_string(parameters, 0).view();
  const Text& text = self.text();
  if (at_start && text.view().starts_with(affix)) return like(runtime, self, text.slice(affix.size(), text.size()));
  if (!at_start && text.view().ends_with(affix)) {
    return like(runtime, self, text.slice(0, text.size() - affix.size()));
  }
  return self;
}

// The index in characters at which the argument occurs, or -1.
template <bool first>
std::int64_t position_of(Runtime& runtime, const Value& self, const Parameters& parameters) {
  const std::string_view needle = require_string(parameters, 0).view();
  const auto [begin, end] = searched(parameters, self);
  runtime.budget().step_bytes(self.text().size());
  if (begin > end) return -1;
  const std::string_view view = self.view().substr(begin, end - begin);
  const std::size_t at = first ? utf8::find(view, needle) : utf8::rfind(view, needle);
  if (at == std::string_view::npos) return -1;
  return static_cast<std::int64_t>(utf8::length(self.view().substr(0, begin + at)));
}

template <bool first>
Value find_substring(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("find()", arguments, {"sub", "start", "end"});
  return position_of<first>(runtime, self, parameters);
}

template <bool first>
Value index_of_substring(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("index()", arguments, {"sub", "start", "end"});
  const std::int64_t position = position_of<first>(runtime, self, parameters);
  if (position < 0) fail("substring not found");
  return position;
}

Value count_substring(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("count()", arguments, {"sub", "start", "end"});
  const std::string_view needle = require_string(parameters, 0).view();
  const auto [begin, end] = searched(parameters, self);
  runtime.budget().step_bytes(self.text().size());
  if (begin > end) return std::int64_t{0};
  const std::string_view view = self.view().substr(begin, end - begin);
  if (needle.empty()) return Value::count(utf8::length(view) + 1);
  std::int64_t count = 0;
  for (std::size_t at = utf8::find(view, needle); at != std::string_view::npos;
       at = utf8::find(view, needle, at + needle.size())) {
    ++count;
  }
  return count;
}

Value join_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("join()", arguments, {"iterable"});
  const std::vector<Value> items = iterate(runtime, parameters.require(0));
  Builder out(runtime);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      fail("sequence item " + std::to_string(i) + ": expected str instance, " + std::string(type_name(items[i])) +
           " found");
    }
    if (i > 0) out.append(self.text());
    out.append(part(runtime, self, items[i]));
  }
  return like(runtime, self, out.take());
}

template <Side side>
Value justify_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("center(), ljust() and rjust()", arguments, {"width", "fillchar"});
  parameters.require(0);
  const Text fill = parameters.find(1) == nullptr ? Text(" ", true) : require_string(parameters, 1).text();
  return like(runtime, self, justify(runtime, self.text(), parameters.integer(0, 0), side, fill));
}

Value zfill(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("zfill()", arguments, {"width"});
  parameters.require(0);
  const Text& text = self.text();
  const std::size_t sign = text.view().starts_with('+') || text.view().starts_with('-') ? 1 : 0;
  const std::int64_t zeros = parameters.integer(0, 0) - static_cast<std::int64_t>(utf8::length(text.view()));
  Builder out(runtime);
  out.append(text, 0, sign);
  out.repeat(Text("0", true), zeros);
  out.append(text, sign, text.size());
  return like(runtime, self, out.take());
}

Value expandtabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters parameters("expandtabs()", arguments, {"tabsize"});
  const std::int64_t tab_size = parameters.integer(0, 8);
  const std::string_view view = self.view();
  Builder out(runtime);
  std::int64_t column = 0;
  for (std::size_t offset = 0; offset < view.size();) {
    const std::size_t end = offset + utf8::width(view[offset]);
    if (view[offset] == '\t') {
      const std::int64_t spaces = tab_size > 0 ? tab_size - column % tab_size : 0;
      out.repeat(Text(" ", self.text().trusted_at(offset)), spaces);
      column += spaces;
    } else {
      out.append(self.text(), offset, end);
      column = view[offset] == '\n' || view[offset] == '\r' ? 0 : column + 1;
    }
    offset = end;
  }
  return like(runtime, self, out.take());
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return like(runtime, self, format_braces(runtime, self.text(), arguments));
}

// Whether all characters are so; an empty string is `of_empty`.
template <bool (*predicate)(char32_t), bool of_empty = false>
Value all_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("this method of str", arguments, {});
  const std::string_view view = self.view();
  runtime.budget().step_bytes(view.size());
  for (std::size_t offset = 0; offset < view.size(); offset += utf8::width(view[offset])) {
    if (!predicate(utf8::decode(view, offset))) return false;
  }
  return of_empty || !view.empty();
}

bool is_ascii_character(char32_t character) { return character < 0x80; }

bool is_digit(char32_t character) {
  // Superscripts and circled digits are digits but not decimals.
  const bool superscript = character == 0xB2 || character == 0xB3 || character == 0xB9 ||
                           (character >= 0x2070 && character <= 0x2079) || (character >= 0x2080 && character <= 0x2089);
  return superscript || utf8::is_decimal(character);
}

// All letters that have a case are of this one, and there is one.
template <bool upper>
Value is_case(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("this method of str", arguments, {});
  return is_one_case(runtime, self.text(), upper);
}

Value istitle(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Parameters("istitle()", arguments, {});
  const std::string_view view = self.view();
  runtime.budget().step_bytes(view.size());
  bool inside_word = false;
  bool found = false;
  for (std::size_t offset = 0; offset < view.size(); offset += utf8::width(view[offset])) {
    const char32_t character = utf8::decode(view, offset);
    const bool starts = utf8::is_upper(character) || utf8::is_title(character);
    if (starts == inside_word && utf8::is_cased(character)) return false;
    inside_word = utf8::is_cased(character);
    found = found || inside_word;
  }
  return found;
}

constexpr MethodEntry kMethods[] = {
    {"capitalize", mapped<CaseMapping::kCapitalize>},
    {"casefold", mapped<CaseMapping::kLower>},
    {"center", justify_method<Side::kBoth>},
    {"count", count_substring},
    {"endswith", has_affix<false>},
    {"expandtabs", expandtabs},
    {"find", find_substring<true>},
    {"format", format_method},
    {"index", index_of_substring<true>},
    {"isalnum", all_are<utf8::is_alnum>},
    {"isalpha", all_are<utf8::is_alpha>},
    {"isascii", all_are<is_ascii_character, true>},
    {"isdecimal", all_are<utf8::is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"islower", is_case<false>},
    {"isnumeric", all_are<utf8::is_numeric>},
    {"isprintable", all_are<utf8::is_printable, true>},
    {"isspace", all_are<utf8::is_space>},
    {"istitle", istitle},
    {"isupper", is_case<true>},
    {"join", join_method},
    {"ljust", justify_method<Side::kLeft>},
    {"lower", mapped<CaseMapping::kLower>},
    {"lstrip", stripped<Side::kLeft>},
    {"partition", partition<true>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"rfind", find_substring<false>},
    {"rindex", index_of_substring<false>},
    {"rjust", justify_method<Side::kRight>},
    {"rpartition", partition<false>},
    {"rsplit", split_method<Side::kRight>},
    {"rstrip", stripped<Side::kRight>},
    {"split", split_method<Side::kLeft>},
    {"splitlines", splitlines},
    {"startswith", has_affix<true>},
    {"strip", stripped<Side::kBoth>},
    {"swapcase", mapped<CaseMapping::kSwap>},
    {"title", mapped<CaseMapping::kTitle>},
    {"upper", mapped<CaseMapping::kUpper>},
    {"zfill", zfill},
};

}  // namespace

MethodFunction find_string_method(std::string_view name) {
  const auto* const end = std::end(kMethods);
  const auto* const found = std::lower_bound(std::begin(kMethods), end, name,
                                             [](const MethodEntry& entry, auto wanted) { return entry.name < wanted; });
  return found != end && found->name == name ? found->function : nullptr;
}

}  // namespace twostroke::jinja
