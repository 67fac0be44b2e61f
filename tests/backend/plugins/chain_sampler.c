#include "chain_sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* The output function of splitmix64 (Steele, Lea, Flood, 2014), over a sum. */
uint64_t chain_hash(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* A token and a number to sort by: greatest first, ties to the lowest token. */
typedef struct candidate {
  int32_t token;
  float value;
} candidate;

static int compare(const void* left, const void* right) {
  const candidate* a = left;
  const candidate* b = right;
  if (a->value != b->value) return a->value > b->value ? -1 : 1;
  return a->token < b->token ? -1 : 1;
}

static void sort_candidates(const float values[CHAIN_VOCAB], candidate sorted[CHAIN_VOCAB]) {
  for (int32_t t = 0; t < CHAIN_VOCAB; ++t) sorted[t] = (candidate){t, values[t]};
  qsort(sorted, CHAIN_VOCAB, sizeof(candidate), compare);
}

/* The model's own distribution, as log-probabilities. */
static void log_softmax(const float logits[CHAIN_VOCAB], float logprobs[CHAIN_VOCAB]) {
  double sum = 0;
  for (int t = 0; t < CHAIN_VOCAB; ++t) sum += exp(logits[t]);
  for (int t = 0; t < CHAIN_VOCAB; ++t) logprobs[t] = (float)(logits[t] - log(sum));
}

static uint32_t history_count(const twostroke_row* row) { return row->position + row->token_count - row->draft_count; }

/* Accepted drafts are output. */
static void apply_penalties(const twostroke_row* row, uint32_t accepted, float logits[CHAIN_VOCAB]) {
  const twostroke_sampling* sampling = row->sampling;
  uint32_t total[CHAIN_VOCAB] = {0};
  uint32_t output[CHAIN_VOCAB] = {0};
  for (uint32_t i = 0; i < history_count(row); ++i) {
    ++total[row->history[i]];
    if (i >= row->prompt_count) ++output[row->history[i]];
  }
  for (uint32_t i = 0; i < accepted; ++i) {
    ++total[row->drafts[i]];
    ++output[row->drafts[i]];
  }
  for (int t = 0; t < CHAIN_VOCAB; ++t) {
    if (total[t] > 0) {
      const float repetition = sampling->repetition_penalty;
      logits[t] = logits[t] > 0 ? logits[t] / repetition : logits[t] * repetition;
    }
    if (output[t] > 0) logits[t] -= sampling->frequency_penalty * (float)output[t] + sampling->presence_penalty;
  }
}

static bool masked(const twostroke_row* row, int token) {
  return row->mask != NULL && ((row->mask[token / 32] >> (token % 32)) & 1) == 0;
}

/* How many of the sorted candidates are left to draw from; total is the sum of their weights. */
static int narrow(const twostroke_sampling* sampling, const double weights[CHAIN_VOCAB], double* total) {
  int kept = 1;
  *total = weights[0]; /* 1: weights are relative to the best */
  while (kept < CHAIN_VOCAB && weights[kept] > 0 && weights[kept] >= sampling->min_p) ++kept;
  if (sampling->top_k > 0 && kept > sampling->top_k) kept = sampling->top_k;
  for (int i = 1; i < kept; ++i) *total += weights[i];
  if (sampling->top_p >= 1) return kept;
  int nucleus = 1;
  double sum = weights[0];
  while (nucleus < kept && sum < sampling->top_p * *total) sum += weights[nucleus++];
  *total = sum;
  return nucleus;
}

/* The draw for a position is a function of the seed and the position alone. */
static int32_t draw(const twostroke_sampling* sampling, uint64_t position, const candidate sorted[CHAIN_VOCAB]) {
  if (sampling->temperature == 0) return sorted[0].token;
  double weights[CHAIN_VOCAB];
  for (int i = 0; i < CHAIN_VOCAB; ++i) {
    weights[i] = exp((sorted[i].value - sorted[0].value) / sampling->temperature);
  }
  double total;
  const int kept = narrow(sampling, weights, &total);
  double left = (double)(chain_hash(sampling->seed, position) >> 11) * 0x1p-53 * total;
  for (int i = 0; i + 1 < kept; ++i) {
    left -= weights[i];
    if (left < 0) return sorted[i].token;
  }
  return sorted[kept - 1].token;
}

static void score_token(const float logprobs[CHAIN_VOCAB], int32_t token, uint32_t top_count, twostroke_logprob* top,
                        twostroke_score* score) {
  candidate sorted[CHAIN_VOCAB];
  sort_candidates(logprobs, sorted);
  *score = (twostroke_score){.logprob = logprobs[token], .rank = 1, .top_count = top_count, .top = top};
  for (int t = 0; t < CHAIN_VOCAB; ++t) score->rank += logprobs[t] > logprobs[token] ? 1 : 0;
  for (uint32_t i = 0; i < top_count; ++i) top[i] = (twostroke_logprob){sorted[i].token, sorted[i].value};
}

void chain_score(const float logits[CHAIN_VOCAB], int32_t target, uint32_t top_count, twostroke_logprob* top,
                 twostroke_score* score) {
  float logprobs[CHAIN_VOCAB];
  log_softmax(logits, logprobs);
  score_token(logprobs, target, top_count, top, score);
}

static void report_logprobs(const twostroke_sampling* sampling, const float logprobs[CHAIN_VOCAB],
                            twostroke_logprob* top, twostroke_sampled* sampled) {
  if (sampling->logprobs < 0) return;
  const uint32_t top_count = sampling->logprobs < CHAIN_VOCAB ? (uint32_t)sampling->logprobs : CHAIN_VOCAB;
  twostroke_score score;
  score_token(logprobs, sampled->token, top_count, top, &score);
  sampled->logprob = score.logprob;
  sampled->rank = score.rank;
  sampled->top_count = top_count;
  sampled->top = top;
}

bool chain_sample(const twostroke_row* row, uint32_t accepted, float logits[CHAIN_VOCAB], twostroke_logprob* top,
                  twostroke_sampled* sampled) {
  const twostroke_sampling* sampling = row->sampling;
  float logprobs[CHAIN_VOCAB];
  log_softmax(logits, logprobs);
  for (int t = 0; t < CHAIN_VOCAB; ++t) {
    if (masked(row, t)) logits[t] = -INFINITY;
  }
  for (uint32_t i = 0; i < sampling->bias_count; ++i) logits[sampling->bias[i].token] += sampling->bias[i].bias;
  apply_penalties(row, accepted, logits);
  candidate sorted[CHAIN_VOCAB];
  sort_candidates(logits, sorted);
  if (!isfinite(sorted[0].value)) return false; /* the mask allows nothing */
  *sampled = (twostroke_sampled){.token = draw(sampling, (uint64_t)history_count(row) + accepted, sorted)};
  report_logprobs(sampling, logprobs, top, sampled);
  return true;
}
