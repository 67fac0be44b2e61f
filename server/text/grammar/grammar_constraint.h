// A grammar as the scheduler's TokenConstraint: a sequence's text stays within it, and its stop tokens are allowed
// exactly where the text may end.
//
// The text is what a client sees: what Detokenizer makes of the tokens, without control tokens. A token may end within
// a UTF-8 character.
//
// Where nothing of the vocabulary can follow although the text is no whole one (a byte that the grammar wants is in no
// token; a limit of the parser), the stop tokens are allowed, since a sequence must be able to end. This is the only
// case in which a text that ended with a stop token is not one of the grammar's; ended_whole() is false then.
//
// Thread-safety: that of TokenConstraint. Constraints of one grammar are independent of each other.
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
// could not end. Where the text must end, only they are allowed. `at_start`: as for Detokenizer.
std::unique_ptr<TokenConstraint> make_constraint(std::shared_ptr<const Grammar> grammar, const Tokenizer& tokenizer,
                                                 const TokenTrie& tokens, std::vector<TokenId> stop_tokens,
                                                 bool at_start = false);

}  // namespace twostroke::grammar
