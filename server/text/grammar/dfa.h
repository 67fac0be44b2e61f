// Dfa: a regular language over bytes, as a deterministic automaton. Regexes, number ranges, string patterns and formats
// become one, so that intersections and complements are possible before they enter a grammar as a single terminal.
//
// Thread-safety: a plain value.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace twostroke::grammar {

struct Dfa {
  static constexpr uint32_t kDead = UINT32_MAX;

  // State 0 is the start. From every state an accepting one can be reached; the language without any text has no state.
  std::array<uint8_t, 256> byte_class{};  // bytes that no state tells apart share a class, [0, class_count)
  uint32_t class_count = 1;
  std::vector<uint32_t> next;   // [state_count, class_count]: the next state, or kDead
  std::vector<bool> accepting;  // [state_count]

  uint32_t state_count() const { return static_cast<uint32_t>(accepting.size()); }
  bool empty() const { return accepting.empty(); }
  uint32_t step(uint32_t state, unsigned char byte) const { return next[state * class_count + byte_class[byte]]; }
  bool matches(std::string_view text) const {
    if (empty()) return false;
    uint32_t state = 0;
    for (const char byte : text) {
      state = step(state, static_cast<unsigned char>(byte));
      if (state == kDead) return false;
    }
    return accepting[state];
  }
};

}  // namespace twostroke::grammar
