// Making Dfas: from a deterministic machine given as functions, from two others, as small as possible.
//
// Everything here is bounded by DfaLimits; what would grow beyond them is an error, soon after it is reached.
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/status.h"
#include "server/text/grammar/dfa.h"

namespace twostroke::grammar {

struct DfaLimits {
  uint32_t states_max = 100'000;
  uint64_t table_max = 4'000'000;  // states times classes of bytes
};

// A partition of the bytes. Class c stands for all bytes b with of[b] == c; representative[c] is one of them.
struct ByteClasses {
  std::array<uint8_t, 256> of{};
  std::vector<unsigned char> representative;
};

// Every byte of `bytes` in a class of its own, all others together in another.
ByteClasses separate_classes(std::string_view bytes);
// The coarsest partition that is finer than both.
ByteClasses joint_classes(const ByteClasses& a, const ByteClasses& b);
ByteClasses classes_of(const Dfa& dfa);

// The error for what grows beyond a limit.
Status automaton_too_large(const DfaLimits& limits);

// The same language with as few states and classes as possible, and without states that lead nowhere. O(t log t) in the
// number of transitions (Valmari, Lehtinen: Efficient Minimization of DFAs with Partial Transition Functions, 2008).
Dfa minimize(const Dfa& dfa);

// The same without the states that lead nowhere, as Dfa wants it. O(n).
Dfa trim(const Dfa& dfa);

enum class DfaOperation { kIntersection, kUnion, kDifference };
// The result is minimal.
Result<Dfa> combine(const Dfa& a, const Dfa& b, DfaOperation operation, const DfaLimits& limits = {});

// All valid UTF-8 text.
Dfa utf8_text();
// Exactly these texts. Its size is that of a tree of them; it is not minimal.
Result<Dfa> text_set(const std::vector<std::string>& texts, const DfaLimits& limits = {});
// All valid UTF-8 text but these; not minimal either.
Result<Dfa> all_text_but(const std::vector<std::string>& texts, const DfaLimits& limits = {});

// Code points in the shortest and longest text of a language of UTF-8 texts; `longest` is UINT32_MAX where there is
// none.
struct TextLengths {
  uint32_t shortest = 0;
  uint32_t longest = 0;
};
TextLengths text_lengths(const Dfa& dfa);

// The Dfa of a machine. State: up to 64 bits that say all about a state, `start` first. `step(state, byte)` is the next
// state, or nothing; it must not tell bytes of a class apart. `accepts(state)`. Neither minimal nor trimmed.
template <typename Step, typename Accepts>
Result<Dfa> explore(uint64_t start, const ByteClasses& classes, Step step, Accepts accepts,
                    const DfaLimits& limits = {}) {
  Dfa dfa;
  dfa.byte_class = classes.of;
  dfa.class_count = static_cast<uint32_t>(classes.representative.size());
  std::unordered_map<uint64_t, uint32_t> numbers{{start, 0}};
  std::vector<uint64_t> states{start};
  for (size_t i = 0; i < states.size(); ++i) {
    if (states.size() > limits.states_max || (i + 1) * dfa.class_count > limits.table_max)
      return automaton_too_large(limits);
    const uint64_t state = states[i];
    dfa.accepting.push_back(accepts(state));
    for (const unsigned char byte : classes.representative) {
      const std::optional<uint64_t> next = step(state, byte);
      if (!next) {
        dfa.next.push_back(Dfa::kDead);
        continue;
      }
      const auto [entry, is_new] = numbers.try_emplace(*next, static_cast<uint32_t>(states.size()));
      if (is_new) states.push_back(*next);
      dfa.next.push_back(entry->second);
    }
  }
  return dfa;
}

}  // namespace twostroke::grammar
