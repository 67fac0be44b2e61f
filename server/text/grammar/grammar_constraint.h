// A grammar as the scheduler's TokenConstraint: a sequence's text stays within it, and its stop tokens are allowed
// exactly where the text may end.
#pragma once

#include <memory>
#include <vector>

#include "kernels/token.h"
#include "scheduler/token_constraint.h"
#include "server/text/grammar/grammar.h"
#include "server/text/grammar/token_trie.h"
#include "server/text/tokenizer.h"

namespace twostroke::grammar {

// `tokenizer` and `tokens` must outlive it. `stop_tokens`: sorted, those of the request; at least one, or the sequence
// could not end. Where the text must end, only they are allowed.
std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const Grammar> grammar, const Tokenizer& tokenizer,
                                                 const TokenTrie& tokens, std::vector<TokenId> stop_tokens);

}  // namespace twostroke::grammar
