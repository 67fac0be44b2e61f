#include "server/text/jinja/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace twostroke::jinja::utf8 {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

utf8proc_category_t category(char32_t character) { return utf8proc_category(static_cast<utf8proc_int32_t>(character)); }

// The characters whose upper case is more than one character and that ordinary text holds (Unicode's SpecialCasing).
// Greek letters with iota subscript keep their single-character mapping.
struct SpecialUpper {
  char32_t character;
  const char* upper;
  const char* title;
};
constexpr SpecialUpper kSpecialUpper[] = {
    {0x00DF, "SS", "Ss"},   {0x0149, "\xCA\xBCN", "\xCA\xBCN"},
    {0xFB00, "FF", "Ff"},   {0xFB01, "FI", "Fi"},
    {0xFB02, "FL", "Fl"},   {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"},
    {0xFB06, "ST", "St"},
};

const SpecialUpper* special_upper(char32_t character) {
  const auto* const end = std::end(kSpecialUpper);
  const auto* const found =
      std::find_if(std::begin(kSpecialUpper), end, [&](const auto& entry) { return entry.character == character; });
  return found == end ? nullptr : found;
}

}  // namespace

bool is_valid(std::string_view bytes) {
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    if (static_cast<unsigned char>(bytes[offset]) < 0x80) {
      ++offset;
      continue;
    }
    utf8proc_int32_t character = 0;
    const auto* const data = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()) + offset;
    const auto used = utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(bytes.size() - offset), &character);
    if (used <= 0) return false;
    offset += static_cast<std::size_t>(used);
  }
  return true;
}

std::size_t length(std::string_view bytes) {
  return static_cast<std::size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char byte) { return !is_continuation(byte); }));
}

bool is_ascii(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

std::size_t offset_of(std::string_view bytes, std::size_t index) {
  std::size_t offset = 0;
  while (index > 0 && offset < bytes.size()) {
    offset += width(bytes[offset]);
    --index;
  }
  return offset;
}

std::size_t width(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

char32_t decode(std::string_view bytes, std::size_t offset) {
  const auto at = [&](std::size_t index) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[index])); };
  const char32_t first = at(offset);
  switch (width(bytes[offset])) {
    case 1:
      return first;
    case 2:
      return (first & 0x1F) << 6 | (at(offset + 1) & 0x3F);
    case 3:
      return (first & 0x0F) << 12 | (at(offset + 1) & 0x3F) << 6 | (at(offset + 2) & 0x3F);
    default:
      return (first & 0x07) << 18 | (at(offset + 1) & 0x3F) << 12 | (at(offset + 2) & 0x3F) << 6 |
             (at(offset + 3) & 0x3F);
  }
}

void append(std::string& out, char32_t character) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::size_t start_of_last(std::string_view bytes, std::size_t end) {
  do {
    --end;
  } while (is_continuation(bytes[end]));
  return end;
}

std::size_t trimmed_end(std::string_view bytes) {
  std::size_t end = bytes.size();
  while (end > 0) {
    const std::size_t begin = start_of_last(bytes, end);
    if (!is_space(decode(bytes, begin))) break;
    end = begin;
  }
  return end;
}

std::size_t find(std::string_view haystack, std::string_view needle, std::size_t from) {
  if (from > haystack.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // glibc's memmem stays linear for any needle; std::string_view::find does not.
  const void* const found = memmem(haystack.data() + from, haystack.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - haystack.data());
}

std::size_t rfind(std::string_view haystack, std::string_view needle) {
  if (needle.empty()) return haystack.size();
  std::size_t last = std::string_view::npos;
  for (std::size_t at = find(haystack, needle); at != std::string_view::npos; at = find(haystack, needle, at + 1)) {
    last = at;
  }
  return last;
}

bool is_space(char32_t character) {
  if (character < 0x80) {
    return (character >= '\t' && character <= '\r') || (character >= 0x1C && character <= 0x1F) || character == ' ';
  }
  switch (category(character)) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return character == 0x85;
  }
}

bool is_alpha(char32_t character) {
  switch (category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(char32_t character) { return category(character) == UTF8PROC_CATEGORY_ND; }

bool is_numeric(char32_t character) {
  switch (category(character)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool is_alnum(char32_t character) { return is_alpha(character) || is_numeric(character); }
bool is_lower(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LL; }
bool is_upper(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LU; }
bool is_title(char32_t character) { return category(character) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t character) {
  switch (category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return character == ' ';
    default:
      return true;
  }
}

void append_lower(std::string& out, char32_t character) {
  if (character == 0x0130) {  // a capital I with a dot keeps the dot
    out += "i\xCC\x87";
    return;
  }
  append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character))));
}

void append_upper(std::string& out, char32_t character) {
  if (const SpecialUpper* special = character < 0x80 ? nullptr : special_upper(character)) {
    out += special->upper;
    return;
  }
  append(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character))));
}

void append_title(std::string& out, char32_t character) {
  if (const SpecialUpper* special = character < 0x80 ? nullptr : special_upper(character)) {
    out += special->title;
    return;
  }
  append(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character))));
}

}  // namespace twostroke::jinja::utf8
