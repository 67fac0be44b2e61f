// Which tokens can be read from a position, whoever called its rule: the part of a mask that depends on no context.
//
// Only tokens that begin with a byte edge of the position itself: what a set can read is what its items can read each
// by itself, and the rules that a position calls have items of their own in the set. So the beginning of a string has
// one mask for all places where a string may stand.
//
// A token is read by the rule itself (and by what it calls on the way) as far as the rule's end. What a token has
// behind the end is up to the callers, so a PositionMask names the places in the tree of tokens where the rule may end,
// and a matcher goes on from there with the set that it has. The tokens inside a string, all but some thousand of a
// vocabulary, are of the first kind: they are found out once for a grammar.
//
// Positions in a counted rule depend on the count, too. But while there are more rounds left than a token can spend,
// the mask is the same for all counts (kFarFromMax), and so it is while more are required than that (kFarFromMin).
#pragma once

#include <cstdint>
#include <memory>

#include "server/text/grammar/compiled_grammar.h"
#include "server/text/grammar/mask_cache.h"
#include "server/text/grammar/token_trie_nodes.h"

namespace twostroke::grammar {

// Counts that stand for many.
constexpr uint32_t kFarFromMax = UINT32_MAX;
constexpr uint32_t kFarFromMin = UINT32_MAX - 1;

// From the grammar's cache, or found out now: up to some milliseconds. `count` is a count, or stands for many.
std::shared_ptr<const PositionMask> position_mask(const Grammar& grammar, const Forest& forest, uint32_t position,
                                                  uint32_t count);

}  // namespace twostroke::grammar
