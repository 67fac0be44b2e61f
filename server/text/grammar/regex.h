// Regular expressions as Dfas: the dialect of JSON Schema's `pattern` (ECMA-262, without look-around,
// back-references and word boundaries inside a text, which are refused by name), over code points in UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/status.h"
#include "server/text/grammar/dfa.h"
#include "server/text/grammar/grammar.h"

namespace twostroke::grammar {

struct RegexLimits {
  uint32_t depth_max = 200;       // groups in one another
  uint32_t states_max = 100'000;  // of the automaton, before it is made small
};

// The texts that match as a whole (`anchored`), or that hold a match (as JSON Schema's `pattern` means it; ^ and $ then
// work as anchors). Errors: kInvalidArgument "at N: ..." (not a regex, or a limit), kUnsupported (named).
Result<Dfa> compile_regex(std::string_view pattern, bool anchored, const RegexLimits& limits = {});

// structured_outputs.regex: the whole output matches.
Result<std::shared_ptr<const Grammar>> compile_regex_grammar(std::string_view pattern);

}  // namespace twostroke::grammar
