// Filters that make or undo HTML and URLs.
#include <cstdio>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/filter_table.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/strings.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

Value escaped(Runtime& runtime, const Text& text) {
  Builder out(runtime);
  append_escaped(out, text);
  return runtime.string(out.take(), true);
}

Value filter_escape(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'escape'", arguments, {"s"});
  const Value& value = parameters.require(0);
  return value.is_markup() ? value : escaped(runtime, to_text(runtime, value));
}

Value filter_forceescape(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'forceescape'", arguments, {"value"});
  return escaped(runtime, to_text(runtime, parameters.require(0)));
}

Value filter_safe(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'safe'", arguments, {"value"});
  return runtime.string(to_text(runtime, parameters.require(0)), true);
}

// The entities that striptags turns back; others stay as they are.
constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
    {"&amp;", "&"},  {"&lt;", "<"},    {"&gt;", ">"},          {"&#39;", "'"},
    {"&#34;", "\""}, {"&quot;", "\""}, {"&nbsp;", "\xC2\xA0"},
};

Text without_tags(Runtime& runtime, const Text& text) {
  const std::string_view view = text.view();
  Builder out(runtime);
  std::size_t begin = 0;
  for (std::size_t open = view.find('<'); open != std::string_view::npos; open = view.find('<', begin)) {
    const bool comment = view.substr(open).starts_with("<!--");
    const std::size_t close = comment ? view.find("-->", open) : view.find('>', open);
    if (close == std::string_view::npos) break;
    out.append(text, begin, open);
    begin = close + (comment ? 3 : 1);
  }
  out.append(text, begin, view.size());
  return out.take();
}

Value filter_striptags(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'striptags'", arguments, {"value"});
  const Text text = without_tags(runtime, to_text(runtime, parameters.require(0)));
  Builder words(runtime);
  bool first = true;
  for (const Text& word : split(runtime, text, nullptr, -1, Side::kLeft)) {
    if (!first) words.append(" ");
    first = false;
    words.append(word);
  }
  const Text joined = words.take();
  Builder out(runtime);
  std::size_t begin = 0;
  for (std::size_t at = joined.view().find('&'); at != std::string_view::npos; at = joined.view().find('&', begin)) {
    out.append(joined, begin, at);
    begin = at + 1;
    std::string_view character = "&";
    for (const auto& [entity, plain] : kEntities) {
      if (!joined.view().substr(at).starts_with(entity)) continue;
      character = plain;
      begin = at + entity.size();
      break;
    }
    out.append(character, joined.trusted_at(at));
  }
  out.append(joined, begin, joined.size());
  return runtime.string(out.take());
}

void append_quoted(Builder& out, const Text& text, bool query) {
  const std::string_view view = text.view();
  for (std::size_t i = 0; i < view.size(); ++i) {
    const char c = view[i];
    const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool plain = letter || std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
    char quoted[4] = {c, 0, 0, 0};
    if (c == ' ' && query) {
      quoted[0] = '+';
    } else if (!plain) {
      std::snprintf(quoted, sizeof(quoted), "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
    out.append(quoted, text.trusted_at(i));
  }
}

Value filter_urlencode(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'urlencode'", arguments, {"value"});
  const Value& value = parameters.require(0);
  Builder out(runtime);
  if (value.is_string() || !is_iterable(value)) {
    append_quoted(out, to_text(runtime, value), false);
    return runtime.string(out.take());
  }
  const auto append_pair = [&](const Value& key, const Value& item) {
    if (out.size() > 0) out.append("&");
    append_quoted(out, to_text(runtime, key), true);
    out.append("=");
    append_quoted(out, to_text(runtime, item), true);
  };
  if (value.is_dict()) {
    for (const auto& [key, item] : value.dict()->entries()) append_pair(key, item);
  } else {
    for (const Value& pair : iterate(runtime, value)) {
      const std::vector<Value> items = iterate(runtime, pair);
      if (items.size() != 2) fail("filter 'urlencode' needs pairs of a name and a value");
      append_pair(items[0], items[1]);
    }
  }
  return runtime.string(out.take());
}

Value filter_xmlattr(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'xmlattr'", arguments, {"d", "autospace"});
  const Value& value = parameters.require(0);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_dict()) fail("filter 'xmlattr' needs a dict, not " + std::string(type_name(value)));
  Builder out(runtime);
  for (const auto& [key, item] : value.dict()->entries()) {
    if (item.is_none() || item.is_undefined()) continue;
    const Text name = to_text(runtime, key);
    if (name.view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      fail("Invalid character in attribute name: " + to_repr(runtime, key).bytes());
    }
    if (out.size() > 0 || parameters.truth(1, true)) out.append(" ");
    append_escaped(out, name);
    out.append("=\"");
    if (item.is_markup()) {
      out.append(item.text());
    } else {
      append_escaped(out, to_text(runtime, item));
    }
    out.append("\"");
  }
  return runtime.string(out.take());
}

constexpr FilterEntry kMarkupFilters[] = {
    {"e", filter_escape},        {"escape", filter_escape},       {"forceescape", filter_forceescape},
    {"safe", filter_safe},       {"striptags", filter_striptags}, {"urlencode", filter_urlencode},
    {"xmlattr", filter_xmlattr},
};

}  // namespace

FilterFunction find_markup_filter(std::string_view name) { return find_in_table(kMarkupFilters, name); }

}  // namespace twostroke::jinja
