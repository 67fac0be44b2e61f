#include "server/text/utf8.h"

#include <cstdint>

#include "kernels/check.h"

namespace twostroke {
namespace {

// What may follow a lead byte: how many bytes in all, and the range of the second; the others are 80 to BF.
struct Lead {
  size_t size;
  uint8_t second_min;
  uint8_t second_max;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // a continuation byte, or the start of an overlong form
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // nothing above U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Unit utf8_first_unit(std::string_view text) {
  CHECK(!text.empty());
  const Lead lead = lead_of(static_cast<uint8_t>(text[0]));
  if (lead.size == 0) return {Utf8Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.size; ++i) {
    if (i == text.size()) return {Utf8Kind::kIncomplete, i};
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t max = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte < min || byte > max) return {Utf8Kind::kInvalid, i};
  }
  return {Utf8Kind::kCharacter, lead.size};
}

std::string utf8_replace_invalid(std::string_view text, size_t* keep_incomplete) {
  std::string out;
  out.reserve(text.size());
  if (keep_incomplete) *keep_incomplete = 0;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_first_unit(text);
    if (unit.kind == Utf8Kind::kCharacter) {
      out.append(text.substr(0, unit.size));
    } else if (unit.kind == Utf8Kind::kIncomplete && keep_incomplete) {
      *keep_incomplete = unit.size;
    } else {
      out.append(kReplacementCharacter);
    }
    text.remove_prefix(unit.size);
  }
  return out;
}

}  // namespace twostroke
