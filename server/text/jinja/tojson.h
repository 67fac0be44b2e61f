// The filter `tojson` as transformers has it: Python's json.dumps, without HTML escaping.
#pragma once

#include <optional>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

struct JsonOptions {
  bool ensure_ascii = false;
  std::optional<Text> indent;  // what one level is indented by; none: all on one line
  Text item_separator = Text(", ", true);
  Text key_separator = Text(": ", true);
  bool sort_keys = false;
};

Text to_json(Runtime& runtime, const Value& value, const JsonOptions& options);

// The filter: tojson(value, ensure_ascii, indent, separators, sort_keys).
Value filter_tojson(Runtime& runtime, const Arguments& arguments);

}  // namespace twostroke::jinja
