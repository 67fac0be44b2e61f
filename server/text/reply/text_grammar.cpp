#include "server/text/reply/text_grammar.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/regex.h"
#include "server/text/grammar/schema_reader.h"

namespace twostroke::reply {
namespace {

using grammar::Dfa;
using grammar::DfaOperation;

// Valid UTF-8 that does not hold the marker: the automaton of Knuth, Morris and Pratt (Fast Pattern Matching in
// Strings, 1977), without its last state.
Result<Dfa> text_without_marker(const std::string& marker) {
  const auto longest_border = [&](const std::string& read) {
    size_t size = std::min(read.size(), marker.size());
    while (size > 0 && !std::string_view(read).ends_with(std::string_view(marker).substr(0, size))) --size;
    return size;
  };
  const Result<Dfa> without = grammar::explore(
      0, grammar::separate_classes(marker),
      [&](uint64_t state, unsigned char byte) -> std::optional<uint64_t> {
        const size_t next = longest_border(marker.substr(0, state) + static_cast<char>(byte));
        return next == marker.size() ? std::nullopt : std::optional<uint64_t>(next);
      },
      [](uint64_t) { return true; });
  if (!without.ok()) return without.status();
  return grammar::combine(grammar::utf8_text(), *without, DfaOperation::kIntersection);
}

// Valid UTF-8 that holds none of them.
Result<Dfa> text_without_markers(const std::vector<std::string>& markers) {
  Result<Dfa> texts = grammar::utf8_text();
  for (const std::string& marker : markers) {
    const Result<Dfa> without = text_without_marker(marker);
    if (texts.ok()) texts = without.ok() ? grammar::combine(*texts, *without, DfaOperation::kIntersection) : without;
  }
  return texts;
}

// A name within a JSON string as a regular expression: each character as it is, or escaped by its number.
std::string spellings(const std::string& name) {
  std::string regex;
  for (const char letter : name) {
    regex += "(?:";
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) regex += '\\';
    regex += std::string(1, letter) + "|\\\\u00";
    for (const int shift : {4, 0}) {
      const int digit = static_cast<unsigned char>(letter) >> shift & 15;
      regex += digit < 10
                   ? std::string(1, static_cast<char>('0' + digit))
                   : std::string("[") + static_cast<char>('a' + digit - 10) + static_cast<char>('A' + digit - 10) + "]";
    }
    regex += ')';
  }
  return regex;
}

// With bounds on its length alone, a text is counted, not unrolled; then it has no byte that could begin a marker.
bool only_counts(const grammar::Shape& shape) {
  return shape.strings.empty() && shape.excluded_strings.empty() && !shape.values && !shape.length.is_bare();
}

grammar::ExprId counted_text(grammar::GrammarBuilder& builder, const std::vector<std::string>& markers,
                             const grammar::CountBounds& length) {
  std::vector<grammar::CodePointRange> first;
  for (const std::string& marker : markers) {
    const auto byte = static_cast<unsigned char>(marker.front());
    first.emplace_back(byte, byte);
  }
  const auto bound = [](uint64_t count) {
    return static_cast<uint32_t>(std::min<uint64_t>(count, grammar::kUnbounded));
  };
  return builder.repeat(builder.code_point(first, true), bound(length.min), bound(length.max));
}

}  // namespace

bool says_nothing(const nlohmann::ordered_json& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  if (!schema.is_object()) return false;
  static const std::vector<std::string> kAnnotations = {"title",    "description", "default",     "examples",
                                                        "$defs",    "$comment",    "definitions", "deprecated",
                                                        "readOnly", "writeOnly"};
  const auto items = schema.items();
  return std::all_of(items.begin(), items.end(), [](const auto& item) {
    return std::find(kAnnotations.begin(), kAnnotations.end(), item.key()) != kAnnotations.end();
  });
}

Result<grammar::ExprId> text_without(grammar::GrammarBuilder& builder, const std::vector<std::string>& markers,
                                     const nlohmann::ordered_json& schema) {
  const Result<Dfa> allowed = text_without_markers(markers);
  if (!allowed.ok()) return allowed.status();
  grammar::SchemaReader reader(schema);
  const grammar::SchemaReader::Shapes shapes = reader.shapes({grammar::Atom{&schema, grammar::Demand::kHolds}});
  if (reader.failed()) return reader.status();
  std::vector<grammar::ExprId> alternatives;
  for (const grammar::Shape& shape : *shapes) {
    if ((shape.types & grammar::kStringType) == 0) continue;
    if (only_counts(shape)) {
      alternatives.push_back(counted_text(builder, markers, shape.length));
      continue;
    }
    Result<Dfa> texts = reader.strings(shape);
    if (reader.failed()) return reader.status();
    texts = grammar::combine(*texts, *allowed, DfaOperation::kIntersection);
    if (!texts.ok()) return texts.status();
    if (!texts->empty()) alternatives.push_back(builder.automaton(*std::move(texts)));
  }
  if (alternatives.empty()) return invalid_argument("no text that this model's calls can hold satisfies the schema");
  return builder.choice(alternatives);
}

Result<grammar::ExprId> text_that_is_no_object_with(grammar::GrammarBuilder& builder,
                                                    const std::vector<std::string>& markers,
                                                    const std::vector<std::string>& names) {
  Result<Dfa> texts = text_without_markers(markers);
  std::string any_name;
  for (const std::string& name : names) any_name += (any_name.empty() ? "" : "|") + spellings(name);
  if (texts.ok() && !names.empty()) {
    const Result<Dfa> objects = grammar::compile_regex("[ \\t\\r\\n]*\\{[^]*\"(?:" + any_name + ")\"[^]*", true);
    texts = objects.ok() ? grammar::combine(*texts, *objects, DfaOperation::kDifference) : objects;
  }
  if (!texts.ok()) return texts.status();
  return builder.automaton(*std::move(texts));
}

}  // namespace twostroke::reply
