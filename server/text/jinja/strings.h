// What Python's str methods do, on marked text. Shared by the methods and the filters of the same names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/text.h"

namespace twostroke::jinja {

enum class Side { kLeft, kRight, kBoth };
enum class CaseMapping { kLower, kUpper, kSwap, kCapitalize, kTitle };

// Without the characters of `characters` at its ends; without white space where there are none given.
Text strip(Runtime& runtime, const Text& text, Side side, std::optional<std::string_view> characters);

Text map_case(Runtime& runtime, const Text& text, CaseMapping mapping);

// The lower case of the character [begin, end) of `view`, which depends on those around it for the Greek sigma.
void append_lower_at(std::string& out, std::string_view view, std::size_t begin, std::size_t end);

// At each white space run where there is no separator, else at each separator, which is not empty. At most `splits_max`
// cuts, counted from the left or the right; below 0 means no bound.
std::vector<Text> split(Runtime& runtime, const Text& text, const Text* separator, std::int64_t splits_max, Side from);

// At Python's line boundaries; the line ends are kept on request.
std::vector<Text> split_lines(Runtime& runtime, const Text& text, bool keep_ends = false);

// Every `old`, or the first `count` of them (below 0: all), becomes `replacement`. An empty `old` is found before each
// character and at the end.
Text replace(Runtime& runtime, const Text& text, const Text& old, const Text& replacement, std::int64_t count);

// Padded with `fill` (one character) up to `width` characters; the text is on the named side, kBoth centres it as
// Python does.
Text justify(Runtime& runtime, const Text& text, std::int64_t width, Side side, const Text& fill);

// Python's isupper() or islower(): all characters that have a case are of this one, and there is one.
bool is_one_case(Runtime& runtime, const Text& text, bool upper);

// HTML: & < > ' " become entities.
void append_escaped(Builder& out, const Text& text);

}  // namespace twostroke::jinja
