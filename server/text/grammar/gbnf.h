// GBNF, the grammar notation of llama.cpp (its grammars/README.md describes it), as a Grammar.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/status.h"
#include "server/text/grammar/grammar.h"

namespace twostroke::grammar {

// Errors: kInvalidArgument "line N: ..." where the text is not GBNF, has no rule `root`, nests or grows beyond a limit.
Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view text);

}  // namespace twostroke::grammar
