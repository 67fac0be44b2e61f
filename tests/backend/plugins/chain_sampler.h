/* Choosing a token from logits, for chain_plugin.c. The order of the steps is that of backend/sampler.h. */
#ifndef TWOSTROKE_TESTS_CHAIN_SAMPLER_H
#define TWOSTROKE_TESTS_CHAIN_SAMPLER_H

#include <stdbool.h>

#include "backend/plugin.h"

enum { CHAIN_VOCAB = 256 };

/* Draws what follows the row's history and its first `accepted` drafts, and says how probable it is where the row asks.
 * `logits` are changed. `top` has room for as many entries as the row asks for, at most CHAIN_VOCAB. False: nothing may
 * come. */
bool chain_sample(const twostroke_row* row, uint32_t accepted, float logits[CHAIN_VOCAB], twostroke_logprob* top,
                  twostroke_sampled* sampled);

/* Scores one target by the logits behind the token before it. `top` has room for top_count entries, and top_count is at
 * most CHAIN_VOCAB. */
void chain_score(const float logits[CHAIN_VOCAB], int32_t target, uint32_t top_count, twostroke_logprob* top,
                 twostroke_score* score);

/* A well-mixed 64-bit hash of both. */
uint64_t chain_hash(uint64_t a, uint64_t b);

#endif
