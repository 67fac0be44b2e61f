// Characters (Unicode code points) of UTF-8 strings, and what Python's str knows about them.
//
// All strings inside the interpreter are valid UTF-8; what comes in is checked by is_valid first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace twostroke::jinja::utf8 {

bool is_valid(std::string_view bytes);
// Number of characters.
std::size_t length(std::string_view bytes);
bool is_ascii(std::string_view bytes);
// Byte offset of character `index`; bytes.size() where there are not so many.
std::size_t offset_of(std::string_view bytes, std::size_t index);
// Bytes of the character whose first byte this is.
std::size_t width(char first);
// The character that starts at `offset`, which is at a character's first byte.
char32_t decode(std::string_view bytes, std::size_t offset);
void append(std::string& out, char32_t character);
// The first byte of the character that ends before `end`, which is not 0.
std::size_t start_of_last(std::string_view bytes, std::size_t end);

// Where `needle` first occurs at or after `from`, or npos; in linear time. It is found at a character's first byte,
// because both are valid UTF-8.
std::size_t find(std::string_view haystack, std::string_view needle, std::size_t from = 0);
// Where it occurs last, or npos.
std::size_t rfind(std::string_view haystack, std::string_view needle);

inline bool is_ascii_digit(char byte) { return byte >= '0' && byte <= '9'; }

// As Python's str methods of one character.
bool is_space(char32_t character);
bool is_alpha(char32_t character);
bool is_decimal(char32_t character);
bool is_numeric(char32_t character);
bool is_alnum(char32_t character);
bool is_lower(char32_t character);
bool is_upper(char32_t character);
bool is_title(char32_t character);
bool is_printable(char32_t character);
inline bool is_cased(char32_t character) { return is_lower(character) || is_upper(character) || is_title(character); }

// The size of the text without the white space at its end.
std::size_t trimmed_end(std::string_view bytes);

// Case mappings; some give more than one character (U+00DF to "SS").
void append_lower(std::string& out, char32_t character);
void append_upper(std::string& out, char32_t character);
void append_title(std::string& out, char32_t character);

}  // namespace twostroke::jinja::utf8
