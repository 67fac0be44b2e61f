// CodePointSet: a set of Unicode code points as ranges. Surrogates are never part of one.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/grammar/grammar_builder.h"

namespace twostroke::grammar {

constexpr char32_t kCodePointMax = 0x10FFFF;

using CodePointSet = std::vector<CodePointRange>;

// Sorted, without overlaps, adjacent ranges joined, surrogates taken out: what the functions below expect and return.
CodePointSet normalized(CodePointSet set);
CodePointSet complement(const CodePointSet& set);

// \d, \w, \s as ECMA-262 has them: ASCII, but for white space (its WhiteSpace and LineTerminator).
CodePointSet digits();
CodePointSet word_characters();
CodePointSet white_space();

// A general category: "L", "Lu", "Letter", "Uppercase_Letter", also as "gc=L" or "General_Category=Letter"; or "Any" or
// "ASCII". Of the Unicode version that utf8proc knows. Nothing: another property, or none.
std::optional<CodePointSet> general_category(std::string_view name);

void append_utf8(std::string* out, char32_t code_point);

}  // namespace twostroke::grammar
