// Grammar: a compiled grammar, shared by every request that uses it, with what they learn about it (masks).
//
// Thread-safety: may be used by any number of matchers on any threads.
#pragma once

#include <memory>

namespace twostroke::grammar {

class Grammar;  // grammar_builder.h makes it, matcher.h reads texts with it

}  // namespace twostroke::grammar
