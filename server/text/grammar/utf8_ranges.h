// Ranges of code points as sequences of byte ranges: what a byte automaton needs to read UTF-8.
//
// Method: a range is cut where the encoded length changes and where only some continuation bytes may follow, so that
// each piece is a product of byte ranges (Thompson's UTF-8 automata; The Unicode Standard, table 3-7).
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace twostroke::grammar {

// Texts of `size` bytes of which byte i lies in [first[i], last[i]].
struct Utf8Sequence {
  uint32_t size = 0;
  std::array<uint8_t, 4> first{};
  std::array<uint8_t, 4> last{};
};

// Sorted, disjoint, not adjacent, without surrogates and what is above U+10FFFF; with `negated`, all other code points.
std::vector<std::pair<char32_t, char32_t>> normal_ranges(std::span<const std::pair<char32_t, char32_t>> ranges,
                                                         bool negated);

// The encodings of normal_ranges().
std::vector<Utf8Sequence> utf8_sequences(std::span<const std::pair<char32_t, char32_t>> normal);

}  // namespace twostroke::grammar
