// UTF-8 as the Unicode Standard defines it (chapter 3.9, table 3-7): no overlong forms, no surrogates, at most
// U+10FFFF.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twostroke {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kCharacter,   // a whole, well-formed character
  kIncomplete,  // the text ends within a character that is well-formed so far
  kInvalid,     // bytes that no continuation can make well-formed
};

struct Utf8Unit {
  Utf8Kind kind;
  size_t size;  // in bytes; of ill-formed text, its maximal subpart: what one U+FFFD stands for
};

// The first unit of `text`, which must not be empty. Units of ill-formed text are those of Python's
// bytes.decode('utf-8', 'replace') and of the WHATWG decoder.
Utf8Unit utf8_first_unit(std::string_view text);

// `text` with each ill-formed unit replaced by U+FFFD; with `keep_incomplete`, an incomplete last character is left out
// and its size stored there.
std::string utf8_replace_invalid(std::string_view text, size_t* keep_incomplete = nullptr);

}  // namespace twostroke
