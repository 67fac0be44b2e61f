#include "server/text/grammar/code_point_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace twostroke::grammar {

namespace {

constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};

struct CategoryName {
  std::string_view abbreviation;
  std::string_view name;
};

// PropertyValueAliases.txt of the Unicode Character Database.
constexpr CategoryName kCategoryNames[] = {
    {"L", "Letter"},
    {"LC", "Cased_Letter"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"M", "Mark"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"N", "Number"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"P", "Punctuation"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"S", "Symbol"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Z", "Separator"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
    {"C", "Other"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Co", "Private_Use"},
    {"Cn", "Unassigned"},
};

// Two letters for every code point, once: the data of utf8proc is slow to ask a million times.
const std::vector<std::array<char, 2>>& categories() {
  static const auto kCategories = [] {
    std::vector<std::array<char, 2>> all(kCodePointMax + 1);
    for (char32_t c = 0; c <= kCodePointMax; ++c) {
      const char* const name = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
      all[c] = {name[0], name[1]};
    }
    return all;
  }();
  return kCategories;
}

bool in_category(const std::array<char, 2>& category, std::string_view wanted) {
  if (wanted == "LC") return category[0] == 'L' && (category[1] == 'u' || category[1] == 'l' || category[1] == 't');
  return category[0] == wanted[0] && (wanted.size() == 1 || category[1] == wanted[1]);
}

}  // namespace

CodePointSet normalized(CodePointSet set) {
  CodePointSet without_surrogates;
  for (const auto& [first, last] : set) {
    if (first < kSurrogates.first)
      without_surrogates.emplace_back(first, std::min<char32_t>(last, kSurrogates.first - 1));
    if (last > kSurrogates.second)
      without_surrogates.emplace_back(std::max<char32_t>(first, kSurrogates.second + 1), last);
  }
  std::sort(without_surrogates.begin(), without_surrogates.end());
  CodePointSet result;
  for (const auto& [first, last] : without_surrogates) {
    if (first > last) continue;
    if (!result.empty() && first <= result.back().second + 1)
      result.back().second = std::max(result.back().second, last);
    else
      result.emplace_back(first, last);
  }
  return result;
}

CodePointSet complement(const CodePointSet& set) {
  CodePointSet result;
  char32_t next = 0;
  for (const auto& [first, last] : set) {
    if (first > next) result.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kCodePointMax) result.emplace_back(next, kCodePointMax);
  return normalized(std::move(result));
}

CodePointSet digits() { return {{'0', '9'}}; }
CodePointSet word_characters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePointSet white_space() {
  return {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}

std::optional<CodePointSet> general_category(std::string_view name) {
  if (name == "Any") return normalized({{0, kCodePointMax}});
  if (name == "ASCII") return CodePointSet{{0, 0x7F}};
  for (const std::string_view prefix : {"gc=", "General_Category="})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  const auto* const known = std::find_if(std::begin(kCategoryNames), std::end(kCategoryNames),
                                         [&](const auto& c) { return name == c.abbreviation || name == c.name; });
  if (known == std::end(kCategoryNames)) return std::nullopt;
  CodePointSet set;
  const auto& all = categories();
  for (char32_t c = 0; c <= kCodePointMax; ++c) {
    if (!in_category(all[c], known->abbreviation)) continue;
    if (!set.empty() && set.back().second + 1 == c)
      set.back().second = c;
    else
      set.emplace_back(c, c);
  }
  return normalized(std::move(set));
}

void append_utf8(std::string* out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

}  // namespace twostroke::grammar
