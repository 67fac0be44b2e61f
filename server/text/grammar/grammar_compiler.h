// From expressions to a Grammar.
//
//  1. Which expressions become rules of their own: those that rules name, counted repetitions, automata, and what is
//     used at several places and is not small.
//  2. Each rule's expression becomes an RuleNfa, and that a RuleDfa, as far as the root needs it.
//  3. analyse(): what can be empty, how deep each position must still go, and what has no text at all, which goes.
//
// Thread-safety: pure functions.
#pragma once

#include <memory>

#include "kernels/status.h"
#include "server/text/grammar/compiled_grammar.h"
#include "server/text/grammar/expressions.h"

namespace twostroke::grammar {

Result<std::shared_ptr<const Grammar>> compile_grammar(const Expressions& expressions, ExprId root,
                                                       const GrammarLimits& limits);

// Finds out `nullable`, `depth_needed` and `tail` and takes away what no text goes through: step 3. False: the root has
// no text.
bool analyse(Grammar& grammar);

}  // namespace twostroke::grammar
