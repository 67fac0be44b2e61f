/* A complete plug-in in C, to read before writing one.
 *
 * The "model": token t is followed by any of 256 tokens with logits that are a hash of everything before it. What a
 * real model keeps in keys and values is here one number per position: the hash of the tokens up to it, kept in blocks
 * and found through the row's block table, as keys and values would be. So batching, chunking, block copies and sharing
 * of blocks work, or show.
 *
 * Prompt log-probabilities (targets) and hidden states (pooling) are optional: without the bits in `features`, and with
 * an embedding_size of 0, the server asks for none.
 *
 * So are drafts: with step_drafts_max at 0 no row has any.
 *
 * plugin_args may name one fault for tests, as NAME=STEP: submit_error, wait_error, dead, not_finite.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plugin.h"
#include "chain_sampler.h"

enum { DEFAULT_CONTEXT = 2048, DEFAULT_BLOCKS = 256, MESSAGE_BYTES = 160, STATE_NUMBERS = 8, STEP_DRAFTS_MAX = 16 };

struct twostroke_backend {
  twostroke_info info;
  uint64_t* kv; /* [block_count * block_size] */

  const twostroke_step* step;    /* in flight; the server's, valid until the next wait() returns */
  twostroke_row_result* results; /* [step_rows_max] */
  twostroke_logprob* top;        /* [(step_rows_max + STEP_DRAFTS_MAX) * CHAIN_VOCAB] */
  twostroke_sampled followings[STEP_DRAFTS_MAX];
  twostroke_score* scores;       /* [step_tokens_max]: of targets */
  twostroke_logprob* target_top; /* of those; grows to what a step asks for */
  size_t target_top_size;
  float* states; /* [step_rows_max * STATE_NUMBERS]: of rows that pool */
  twostroke_result result;

  char fault_name[16];
  unsigned long long fault_step; /* 0: none */
  int dead;
  char error[MESSAGE_BYTES];
};

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static int fail(twostroke_backend* backend, int code, const char* message, uint64_t number) {
  snprintf(backend->error, sizeof(backend->error), "%s (%llu)", message, (unsigned long long)number);
  return code;
}

static int strikes(const twostroke_backend* backend, const char* fault) {
  return backend->fault_step != 0 && backend->step->step == backend->fault_step &&
         strcmp(backend->fault_name, fault) == 0;
}

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static void destroy(twostroke_backend* backend) {
  free(backend->kv);
  free(backend->results);
  free(backend->top);
  free(backend->scores);
  free(backend->target_top);
  free(backend->states);
  free(backend);
}

static int parse_fault(twostroke_backend* backend, const char* args) {
  if (args[0] == 0) return 1;
  if (sscanf(args, "%15[a-z_]=%llu", backend->fault_name, &backend->fault_step) != 2) return 0;
  static const char* const known[] = {"submit_error", "wait_error", "dead", "not_finite"};
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
    if (strcmp(backend->fault_name, known[i]) == 0) return 1;
  }
  return 0;
}

static void fill_info(twostroke_info* info, const twostroke_options* options) {
  info->struct_size = sizeof(*info);
  info->name = "chain";
  info->vocab_size = CHAIN_VOCAB;
  info->context_max = options->context_max != 0 ? options->context_max : DEFAULT_CONTEXT;
  info->block_size = options->block_size;
  info->kv_bytes_per_token = sizeof(uint64_t);
  const uint64_t block_bytes = options->block_size * sizeof(uint64_t);
  const uint64_t blocks = options->kv_bytes != 0 ? options->kv_bytes / block_bytes : DEFAULT_BLOCKS;
  info->block_count = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
  info->step_tokens_max = options->step_tokens_max;
  info->step_rows_max = options->step_rows_max;
  info->features = TWOSTROKE_SCORES_TARGETS | TWOSTROKE_LATE_MASKS;
  info->embedding_size = STATE_NUMBERS;
  info->step_drafts_max = STEP_DRAFTS_MAX;
}

/* What is wrong with the options, or null. */
static const char* check_options(const twostroke_options* options) {
  if (options->struct_size < sizeof(*options)) return "the server is older than this plug-in";
  if (options->block_size == 0) return "block_size must be at least 1";
  if (options->step_tokens_max == 0 || options->step_rows_max == 0) return "a step must hold something";
  if (options->kv_bytes != 0 && options->kv_bytes / sizeof(uint64_t) < options->block_size) {
    return "kv_bytes does not hold one block";
  }
  return NULL;
}

static int create(const twostroke_options* options, twostroke_backend** created, char* message,
                  uint32_t message_bytes) {
  *created = NULL;
  const char* wrong = check_options(options);
  if (wrong != NULL) {
    snprintf(message, message_bytes, "%s", wrong);
    return TWOSTROKE_ERROR_OPTIONS;
  }
  twostroke_backend* backend = calloc(1, sizeof(*backend));
  if (backend == NULL) {
    snprintf(message, message_bytes, "out of memory");
    return TWOSTROKE_ERROR_DEAD;
  }
  if (!parse_fault(backend, options->plugin_args)) {
    snprintf(message, message_bytes, "unknown arguments \"%s\": expected NAME=STEP", options->plugin_args);
    destroy(backend);
    return TWOSTROKE_ERROR_OPTIONS;
  }
  fill_info(&backend->info, options);
  backend->kv = calloc((size_t)backend->info.block_count * backend->info.block_size, sizeof(*backend->kv));
  backend->results = calloc(options->step_rows_max, sizeof(*backend->results));
  backend->top = calloc(((size_t)options->step_rows_max + STEP_DRAFTS_MAX) * CHAIN_VOCAB, sizeof(*backend->top));
  backend->scores = calloc(options->step_tokens_max, sizeof(*backend->scores));
  backend->states = calloc((size_t)options->step_rows_max * STATE_NUMBERS, sizeof(*backend->states));
  if (backend->kv == NULL || backend->results == NULL || backend->top == NULL || backend->scores == NULL ||
      backend->states == NULL) {
    snprintf(message, message_bytes, "no memory for %u KV blocks", (unsigned)backend->info.block_count);
    destroy(backend);
    return TWOSTROKE_ERROR_DEAD;
  }
  *created = backend;
  return TWOSTROKE_OK;
}

static const twostroke_info* info(twostroke_backend* backend) { return &backend->info; }

static const char* last_error(twostroke_backend* backend) { return backend->error; }

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

/* Row i by the server's row_size, which a later version may make larger than our struct. */
static const twostroke_row* row_at(const twostroke_step* step, uint32_t i) {
  return (const twostroke_row*)((const char*)step->rows + (size_t)step->row_size * i);
}

static uint64_t* kv_at(twostroke_backend* backend, const twostroke_row* row, uint32_t position) {
  const uint32_t block_size = backend->info.block_size;
  const uint32_t block = backend->step->blocks[row->block_begin + position / block_size];
  return &backend->kv[(size_t)block * block_size + position % block_size];
}

static void copy_blocks(twostroke_backend* backend) {
  const size_t block_size = backend->info.block_size;
  for (uint32_t i = 0; i < backend->step->copy_count; ++i) {
    const twostroke_copy* copy = &backend->step->copies[i];
    memmove(&backend->kv[copy->target * block_size], &backend->kv[copy->source * block_size],
            block_size * sizeof(*backend->kv));
  }
}

/* Writes the row's positions, those of its drafts among them. */
static void forward(twostroke_backend* backend, const twostroke_row* row) {
  uint64_t state = row->position == 0 ? 1 : *kv_at(backend, row, row->position - 1);
  for (uint32_t t = 0; t < row->token_count; ++t) {
    state = chain_hash(state, (uint64_t)backend->step->tokens[row->token_begin + t]);
    *kv_at(backend, row, row->position + t) = state;
  }
}

static void make_logits(uint64_t state, float logits[CHAIN_VOCAB]) {
  for (uint64_t t = 0; t < CHAIN_VOCAB; ++t) logits[t] = (float)(chain_hash(state, t) >> 40) * (16.0f / (1 << 24));
}

static uint32_t top_of_targets(const twostroke_row* row) {
  return row->target_logprobs < CHAIN_VOCAB ? row->target_logprobs : CHAIN_VOCAB;
}

/* Room for the most probable tokens of all targets of the step. */
static int reserve_target_top(twostroke_backend* backend) {
  size_t needed = 0;
  for (uint32_t i = 0; i < backend->step->row_count; ++i) {
    const twostroke_row* row = row_at(backend->step, i);
    needed += (size_t)row->target_count * top_of_targets(row);
  }
  if (needed <= backend->target_top_size) return 1;
  twostroke_logprob* grown = realloc(backend->target_top, needed * sizeof(*grown));
  if (grown == NULL) return 0;
  backend->target_top = grown;
  backend->target_top_size = needed;
  return 1;
}

/* The row's keys and values are written: behind each of its tokens lies the state that gives the next one's logits. */
static void score_targets(twostroke_backend* backend, const twostroke_row* row, twostroke_logprob** top,
                          twostroke_row_result* result) {
  result->target_count = row->target_count;
  result->targets = &backend->scores[row->token_begin]; /* every token has at most one target */
  for (uint32_t t = 0; t < row->target_count; ++t) {
    float logits[CHAIN_VOCAB];
    make_logits(*kv_at(backend, row, row->position + t), logits);
    chain_score(logits, row->targets[t], top_of_targets(row), *top, &backend->scores[row->token_begin + t]);
    *top += top_of_targets(row);
  }
}

static void pool(twostroke_backend* backend, const twostroke_row* row, float states[STATE_NUMBERS]) {
  double sum[STATE_NUMBERS] = {0};
  const uint32_t first = row->pooling == TWOSTROKE_POOLING_MEAN ? 0 : row->token_count - 1;
  for (uint32_t t = first; t < row->token_count; ++t) {
    const uint64_t state = *kv_at(backend, row, row->position + t);
    for (uint64_t i = 0; i < STATE_NUMBERS; ++i) sum[i] += (double)(chain_hash(state, ~i) >> 40) * 0x1p-23 - 1;
  }
  for (int i = 0; i < STATE_NUMBERS; ++i) states[i] = (float)sum[i];
}

/* Where the next row of the step finds room for what it reports. */
typedef struct cursor {
  twostroke_logprob* target_top;
  twostroke_logprob* top;
  twostroke_sampled* following;
} cursor;

static bool sample_behind(twostroke_backend* backend, const twostroke_row* row, uint32_t accepted, cursor* room,
                          twostroke_sampled* sampled) {
  float logits[CHAIN_VOCAB];
  const uint32_t position = row->position + row->token_count - row->draft_count - 1 + accepted;
  make_logits(*kv_at(backend, row, position), logits);
  if (!chain_sample(row, accepted, logits, room->top, sampled)) return false;
  room->top += CHAIN_VOCAB;
  return true;
}

static void sample(twostroke_backend* backend, const twostroke_row* row, cursor* room, twostroke_row_result* result) {
  twostroke_sampled first;
  if (!sample_behind(backend, row, 0, room, &first)) {
    result->status = TWOSTROKE_ROW_NOT_FINITE;
    return;
  }
  result->token = first.token;
  result->logprob = first.logprob;
  result->rank = first.rank;
  result->top_count = first.top_count;
  result->top = first.top;
  result->following = room->following;
  for (int32_t last = first.token; result->following_count < row->draft_count;) {
    if (last != row->drafts[result->following_count]) return;
    if (!sample_behind(backend, row, result->following_count + 1, room, room->following)) return;
    ++result->following_count;
    last = (room->following++)->token;
  }
}

static void run_row(twostroke_backend* backend, uint32_t i, cursor* room) {
  const twostroke_row* row = row_at(backend->step, i);
  twostroke_row_result* result = &backend->results[i];
  *result = (twostroke_row_result){.struct_size = sizeof(*result), .status = TWOSTROKE_ROW_OK, .token = -1};
  forward(backend, row);
  if (!row->samples && row->target_count == 0 && row->pooling == TWOSTROKE_POOLING_NONE) return;
  if (strikes(backend, "not_finite")) {
    result->status = TWOSTROKE_ROW_NOT_FINITE;
    return;
  }
  if (row->target_count > 0) score_targets(backend, row, &room->target_top, result);
  if (row->pooling != TWOSTROKE_POOLING_NONE) {
    result->hidden = &backend->states[(size_t)i * STATE_NUMBERS];
    pool(backend, row, &backend->states[(size_t)i * STATE_NUMBERS]);
  }
  if (row->samples) sample(backend, row, room, result);
}

/* A backend with a device of its own would start the work here, and return. */
static int submit(twostroke_backend* backend, const twostroke_step* step) {
  if (backend->dead) return fail(backend, TWOSTROKE_ERROR_DEAD, "dead since step", backend->fault_step);
  if (step->struct_size < sizeof(*step) || step->row_size < sizeof(twostroke_row)) {
    return fail(backend, TWOSTROKE_ERROR_STEP, "the server is older than this plug-in; its rows have bytes",
                step->row_size);
  }
  if (step->row_count > backend->info.step_rows_max) {
    return fail(backend, TWOSTROKE_ERROR_STEP, "more rows than step_rows_max", step->row_count);
  }
  backend->step = step;
  if (strikes(backend, "submit_error")) return fail(backend, TWOSTROKE_ERROR_STEP, "could not start step", step->step);
  return TWOSTROKE_OK;
}

static int wait(twostroke_backend* backend, const twostroke_result** result) {
  *result = NULL;
  if (strikes(backend, "wait_error")) {
    return fail(backend, TWOSTROKE_ERROR_STEP, "lost step", backend->step->step);
  }
  if (strikes(backend, "dead")) {
    backend->dead = 1;
    return fail(backend, TWOSTROKE_ERROR_DEAD, "died in step", backend->step->step);
  }
  if (!reserve_target_top(backend)) {
    return fail(backend, TWOSTROKE_ERROR_STEP, "no memory for the log-probabilities of step", backend->step->step);
  }
  copy_blocks(backend);
  cursor room = {.target_top = backend->target_top, .top = backend->top, .following = backend->followings};
  for (uint32_t i = 0; i < backend->step->row_count; ++i) run_row(backend, i, &room);
  backend->result = (twostroke_result){.struct_size = sizeof(backend->result),
                                       .row_count = backend->step->row_count,
                                       .rows = backend->results,
                                       .row_size = sizeof(twostroke_row_result)};
  *result = &backend->result;
  return TWOSTROKE_OK;
}

/* ---- The one symbol ---------------------------------------------------------------------------------------------- */

__attribute__((visibility("default"))) const twostroke_api* twostroke_plugin(void) {
  static const twostroke_api api = {
      .abi_version = TWOSTROKE_ABI_VERSION,
      .struct_size = sizeof(twostroke_api),
      .create = create,
      .destroy = destroy,
      .info = info,
      .submit = submit,
      .wait = wait,
      .last_error = last_error,
  };
  return &api;
}
