#include "server/text/reply/text_grammar.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "server/text/grammar/dfa_operations.h"
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
  std::optional<Dfa> allowed;
  for (const std::string& marker : markers) {
    Result<Dfa> without = text_without_marker(marker);
    if (without.ok() && allowed) without = grammar::combine(*allowed, *without, DfaOperation::kIntersection);
    if (!without.ok()) return without.status();
    allowed = *std::move(without);
  }
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
    if (allowed) texts = grammar::combine(*texts, *allowed, DfaOperation::kIntersection);
    if (!texts.ok()) return texts.status();
    if (!texts->empty()) alternatives.push_back(builder.automaton(*std::move(texts)));
  }
  if (alternatives.empty()) return invalid_argument("no text that this model's calls can hold satisfies the schema");
  return builder.choice(alternatives);
}

}  // namespace twostroke::reply
