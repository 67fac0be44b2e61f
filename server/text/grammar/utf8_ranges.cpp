#include "server/text/grammar/utf8_ranges.h"

#include <algorithm>

namespace twostroke::grammar {
namespace {

using CodePoints = std::pair<char32_t, char32_t>;

constexpr char32_t kHighest = 0x10FFFF;
constexpr char32_t kSurrogatesFirst = 0xD800, kSurrogatesLast = 0xDFFF;

uint32_t encode(char32_t code_point, std::array<uint8_t, 4>& bytes) {
  const auto byte = [](char32_t value) { return static_cast<uint8_t>(value); };
  if (code_point < 0x80) {
    bytes[0] = byte(code_point);
    return 1;
  }
  const uint32_t size = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (uint32_t i = size - 1; i > 0; --i, code_point >>= 6) bytes[i] = byte(0x80 | (code_point & 0x3F));
  bytes[0] = byte((0xF00u >> size & 0xFF) | code_point);
  return size;
}

// Cuts [first, last], whose encodings have one length, until each piece is a product of byte ranges.
void cut_range(CodePoints range, uint32_t size, std::vector<Utf8Sequence>& out) {
  for (uint32_t i = 1; i < size; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // the bits of the last i bytes
    if ((range.first & ~low) == (range.second & ~low)) continue;
    if ((range.first & low) != 0) {
      cut_range({range.first, range.first | low}, size, out);
      cut_range({(range.first | low) + 1, range.second}, size, out);
      return;
    }
    if ((range.second & low) != low) {
      cut_range({range.first, (range.second & ~low) - 1}, size, out);
      cut_range({range.second & ~low, range.second}, size, out);
      return;
    }
  }
  Utf8Sequence sequence;
  sequence.size = encode(range.first, sequence.first);
  encode(range.second, sequence.last);
  out.push_back(sequence);
}

}  // namespace

std::vector<CodePoints> normal_ranges(std::span<const CodePoints> ranges, bool negated) {
  std::vector<CodePoints> sorted;
  for (const CodePoints& range : ranges) {
    if (range.first <= range.second && range.first <= kHighest)
      sorted.push_back({range.first, std::min(range.second, kHighest)});
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<CodePoints> joined;
  for (const CodePoints& range : sorted) {
    if (!joined.empty() && range.first <= joined.back().second + 1)
      joined.back().second = std::max(joined.back().second, range.second);
    else
      joined.push_back(range);
  }
  if (negated) {
    std::vector<CodePoints> others;
    char32_t next = 0;
    for (const CodePoints& range : joined) {
      if (range.first > next) others.push_back({next, range.first - 1});
      next = range.second + 1;
    }
    if (next <= kHighest) others.push_back({next, kHighest});
    joined = std::move(others);
  }
  std::vector<CodePoints> result;
  for (const CodePoints& range : joined) {
    if (range.first < kSurrogatesFirst)
      result.push_back({range.first, std::min(range.second, char32_t{kSurrogatesFirst - 1})});
    if (range.second > kSurrogatesLast)
      result.push_back({std::max(range.first, char32_t{kSurrogatesLast + 1}), range.second});
  }
  return result;
}

std::vector<Utf8Sequence> utf8_sequences(std::span<const CodePoints> normal) {
  constexpr std::array<CodePoints, 4> kLengths = {
      CodePoints{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, kHighest}};
  std::vector<Utf8Sequence> sequences;
  for (const CodePoints& range : normal) {
    for (uint32_t i = 0; i < kLengths.size(); ++i) {
      const CodePoints part = {std::max(range.first, kLengths[i].first), std::min(range.second, kLengths[i].second)};
      if (part.first <= part.second) cut_range(part, i + 1, sequences);
    }
  }
  return sequences;
}

}  // namespace twostroke::grammar
