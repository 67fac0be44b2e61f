#include "server/text/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace twostroke {
namespace {

const std::string kFffd(kReplacementCharacter);

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Utf8, ReplacesMaximalSubpartsAsPythonDoes) {
  // Each right side is what Python 3.11 gives for bytes.decode('utf-8', 'replace').
  const std::pair<std::string, std::string> cases[] = {
      {"abc", "abc"},
      {"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80"},
      {"\x80", kFffd},
      {"\xC0\x80", repeat(kFffd, 2)},  // overlong
      {"\xC3", kFffd},                 // cut off
      {"\xC3(", kFffd + "("},
      {"\xE0\x80\x80", repeat(kFffd, 3)},  // overlong
      {"\xE0\xA0", kFffd},                 // cut off
      {"\xED\xA0\x80", repeat(kFffd, 3)},  // surrogate
      {"\xE4\xB8"
       "a",
       kFffd + "a"},
      {"\xF0\x9F\x98", kFffd},  // cut off
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", kFffd + "\xF0\x9F\x98\x80"},
      {"\xF0\x80\x80\x80", repeat(kFffd, 4)},  // overlong
      {"\xF4\x90\x80\x80", repeat(kFffd, 4)},  // above U+10FFFF
      {"\xF5\x80\x80\x80", repeat(kFffd, 4)},
      {"\xFF\xFE", repeat(kFffd, 2)},
      {"\xF1\x80\x80\xE1\x80\xC2", repeat(kFffd, 3)},  // the example of Unicode 3.9, table 3-8
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(utf8_replace_invalid(bytes), text) << testing::PrintToString(bytes);
  }
}

TEST(Utf8, KeepsBackOnlyWhatMayStillBecomeACharacter) {
  const std::pair<std::string, size_t> cases[] = {
      {"a", 0},    {"a\xC3", 1},   {"a\xE4\xB8", 2}, {"\xF0\x9F\x98", 3}, {"\xE0\x80", 0}, {"\xF0\x9F\x98\x80", 0},
      {"\xFF", 0}, {"\xED\xA0", 0}};
  for (const auto& [bytes, kept] : cases) {
    size_t incomplete = 99;
    const std::string text = utf8_replace_invalid(bytes, &incomplete);
    EXPECT_EQ(incomplete, kept) << testing::PrintToString(bytes);
    EXPECT_EQ(text, utf8_replace_invalid(bytes.substr(0, bytes.size() - kept)));
  }
}

TEST(Utf8, EveryCharacterIsOneUnitAndEverySurrogateIsNone) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    std::string bytes;
    if (code < 0x80) {
      bytes.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      bytes = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
    } else if (code < 0x10000) {
      bytes = {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)),
               static_cast<char>(0x80 | (code & 63))};
    } else {
      bytes = {static_cast<char>(0xF0 | code >> 18), static_cast<char>(0x80 | (code >> 12 & 63)),
               static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
    }
    const Utf8Unit unit = utf8_first_unit(bytes);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    ASSERT_EQ(unit.kind == Utf8Kind::kCharacter, !surrogate) << std::hex << code;
    if (!surrogate) {
      ASSERT_EQ(unit.size, bytes.size()) << std::hex << code;
    }
  }
}

}  // namespace
}  // namespace twostroke
