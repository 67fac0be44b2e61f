// The syntax of a regular expression as a tree. regex.h says which dialect.
//
// Thread-safety: pure functions and plain values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/status.h"
#include "server/text/grammar/code_point_set.h"

namespace twostroke::grammar {

struct RegexNode {
  enum class Kind {
    kCharacter,  // one code point of `set`
    kSequence,   // the children, one behind the other; without any, the empty text
    kChoice,     // one of the children
    kRepeat,     // the only child, `min` to `max` times; UINT32_MAX: no end
    kTextBegin,  // ^
    kTextEnd,    // $
  };
  Kind kind = Kind::kSequence;
  CodePointSet set;
  uint32_t min = 0;
  uint32_t max = 0;
  std::vector<RegexNode> children;
};

// No deeper than 2 * depth_max + 2. Errors: those of compile_regex, without the ones about the automaton.
Result<RegexNode> parse_regex(std::string_view pattern, uint32_t depth_max);

}  // namespace twostroke::grammar
