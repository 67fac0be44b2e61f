// GBNF, the grammar notation of llama.cpp, as a Grammar. Its grammars/README.md describes it:
//
//   # a comment, to the end of the line
//   root   ::= "text" rule-name [a-z0-9] [^\n"] . (group | other)
//   rule-name ::= "a"* "b"+ "c"? "d"{3} "e"{2,} "f"{1,4}
//
// Escapes in texts and classes: \n \t \r \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH (code points, in UTF-8). A rule ends with
// its line, except within parentheses, behind '::=' and '|', and before a line that begins with '|'. <[5]> is the token
// with this number, <think> the token with this text, !<...> any token but that; `tokenizer` finds those given by their
// text.
//
// More than llama.cpp has: left recursion, '_' in names, and repetitions up to GrammarLimits::repeat_max, which cost
// nothing by their size. Refused where llama.cpp goes on: a rule that is defined twice, an empty class, a range or
// repetition with its end before its begin, a surrogate.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/status.h"
#include "server/text/grammar/grammar.h"
#include "server/text/tokenizer.h"

namespace twostroke::grammar {

constexpr uint32_t kGbnfDepthMax = 200;  // groups within one another

// Errors: kInvalidArgument "line N: ..." where the text is not GBNF or refers to a rule that is not there; without a
// line where there is no rule `root`, no text matches, or the grammar grows beyond a limit. kUnsupported: <think>
// without a tokenizer.
Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view text, const Tokenizer* tokenizer = nullptr);

}  // namespace twostroke::grammar
