/* A plug-in that breaks the rules of plugin.h, one at a time: by a macro where the loader looks before create(), by
 * plugin_args (the name of the fault) after that. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plugin.h"

#ifndef BROKEN_ABI_VERSION
#define BROKEN_ABI_VERSION TWOSTROKE_ABI_VERSION
#endif
#ifndef BROKEN_API_SIZE
#define BROKEN_API_SIZE sizeof(twostroke_api)
#endif
#ifndef BROKEN_NULL_WAIT
#define BROKEN_NULL_WAIT 0
#endif
#ifndef BROKEN_NULL_API
#define BROKEN_NULL_API 0
#endif
#ifndef BROKEN_SYMBOL
#define BROKEN_SYMBOL twostroke_plugin
#endif

enum { VOCAB = 64, ROWS_MAX = 4, TOP = 3, TARGETS_MAX = 4, STATE_NUMBERS = 2, DRAFTS_MAX = 3 };

struct twostroke_backend {
  char fault[32];
  twostroke_info info;
  const twostroke_step* step;
  uint32_t row_count;
  twostroke_logprob top[TOP];
  twostroke_score scores[TARGETS_MAX];
  float hidden[STATE_NUMBERS];
  twostroke_sampled followings[DRAFTS_MAX];
  twostroke_row_result rows[ROWS_MAX];
  twostroke_result result;
};

static int is(const twostroke_backend* backend, const char* fault) { return strcmp(backend->fault, fault) == 0; }

static int create(const twostroke_options* options, twostroke_backend** created, char* message,
                  uint32_t message_bytes) {
  *created = NULL;
  const char* fault = options->plugin_args;
  if (strcmp(fault, "no_backend") == 0) return TWOSTROKE_OK;
  if (strcmp(fault, "no_message") == 0) return TWOSTROKE_ERROR_DEAD;
  if (strcmp(fault, "no_device") == 0) {
    snprintf(message, message_bytes, "no device\nfound");
    return TWOSTROKE_ERROR_DEAD;
  }
  if (strcmp(fault, "no_terminator") == 0) {
    memset(message, 'x', message_bytes);
    return TWOSTROKE_ERROR_OPTIONS;
  }
  twostroke_backend* backend = calloc(1, sizeof(*backend));
  if (backend == NULL) return TWOSTROKE_ERROR_DEAD;
  snprintf(backend->fault, sizeof(backend->fault), "%s", fault);
  *created = backend;
  return TWOSTROKE_OK;
}

static void destroy(twostroke_backend* backend) { free(backend); }

static const twostroke_info* info(twostroke_backend* backend) {
  if (is(backend, "null_info")) return NULL;
  twostroke_info* out = &backend->info;
  *out = (twostroke_info){.struct_size = sizeof(*out),
                          .name = "broken",
                          .vocab_size = VOCAB,
                          .context_max = 128,
                          .block_size = 16,
                          .block_count = 16,
                          .step_tokens_max = 128,
                          .step_rows_max = ROWS_MAX,
                          .features = TWOSTROKE_SCORES_TARGETS | 0x80000000u, /* and one that nobody knows */
                          .embedding_size = STATE_NUMBERS,
                          .output_flops = 5,
                          .attention_flops_per_position = 6,
                          .peak_flops = 7,
                          .peak_bytes_per_second = 8,
                          .step_drafts_max = DRAFTS_MAX};
  if (is(backend, "first_version")) out->struct_size = offsetof(twostroke_info, features);
  if (is(backend, "huge_embedding")) out->embedding_size = UINT32_MAX;
  if (is(backend, "second_version")) out->struct_size = offsetof(twostroke_info, attention_flops_per_position);
  if (is(backend, "negative_peak")) out->peak_bytes_per_second = -1;
  if (is(backend, "huge_drafts")) out->step_drafts_max = UINT32_MAX;
  if (is(backend, "nan_output_cost")) out->output_flops = (double)NAN;
  if (is(backend, "small_info")) out->struct_size = 8;
  if (is(backend, "null_name")) out->name = NULL;
  if (is(backend, "zero_blocks")) out->block_count = 0;
  if (is(backend, "huge_blocks")) out->block_count = UINT32_MAX;
  if (is(backend, "huge_pool")) out->block_count = 1u << 26, out->block_size = 1u << 16;
  if (is(backend, "huge_vocab")) out->vocab_size = 0x80000000u;
  if (is(backend, "zero_vocab")) out->vocab_size = 0;
  if (is(backend, "zero_rows")) out->step_rows_max = 0;
  if (is(backend, "huge_context")) out->context_max = UINT32_MAX;
  if (is(backend, "nan_cost")) out->weight_bytes = (double)NAN;
  return out;
}

static int submit(twostroke_backend* backend, const twostroke_step* step) {
  backend->step = step;
  backend->row_count = step->row_count;
  return is(backend, "unknown_code") ? 77 : TWOSTROKE_OK;
}

static void break_row(const twostroke_backend* backend, twostroke_row_result* row) {
  if (is(backend, "small_row")) row->struct_size = 4;
  if (is(backend, "unknown_status")) row->status = 9;
  if (is(backend, "negative_token")) row->token = -1;
  if (is(backend, "huge_token")) row->token = VOCAB;
  if (is(backend, "masked_token")) row->token = 1;
  if (is(backend, "nan_logprob")) row->logprob = (float)NAN;
  if (is(backend, "many_top")) row->top_count = UINT32_MAX;
  if (is(backend, "null_top")) row->top = NULL;
  if (is(backend, "huge_rank")) row->rank = VOCAB + 1;
}

static void break_prompt_work(twostroke_backend* backend, twostroke_row_result* row) {
  twostroke_score* score = &backend->scores[0];
  if (is(backend, "few_targets")) --row->target_count;
  if (is(backend, "null_targets")) row->targets = NULL;
  if (is(backend, "nan_target")) score->logprob = (float)NAN;
  if (is(backend, "huge_target_rank")) score->rank = VOCAB + 1;
  if (is(backend, "many_target_top")) score->top_count = UINT32_MAX;
  if (is(backend, "null_target_top")) score->top = NULL;
  if (is(backend, "null_hidden")) row->hidden = NULL;
  if (is(backend, "nan_hidden")) backend->hidden[1] = (float)NAN;
}

static void do_prompt_work(twostroke_backend* backend, uint32_t i) {
  const twostroke_row* row =
      (const twostroke_row*)((const char*)backend->step->rows + (size_t)backend->step->row_size * i);
  twostroke_row_result* result = &backend->rows[i];
  if (row->target_count > 0) {
    for (uint32_t t = 0; t < row->target_count && t < TARGETS_MAX; ++t) {
      backend->scores[t] = (twostroke_score){.logprob = -2.0f, .rank = 3, .top_count = 1, .top = backend->top};
    }
    result->target_count = row->target_count;
    result->targets = backend->scores;
  }
  if (row->pooling != TWOSTROKE_POOLING_NONE) {
    backend->hidden[0] = 0.5f;
    backend->hidden[1] = -0.5f;
    result->hidden = backend->hidden;
  }
  if (row->target_count > 0 || row->pooling != TWOSTROKE_POOLING_NONE) break_prompt_work(backend, result);
}

/* Token 0 again and again, which drafts of 0 confirm. */
static void follow_drafts(twostroke_backend* backend, uint32_t i) {
  const twostroke_row* row =
      (const twostroke_row*)((const char*)backend->step->rows + (size_t)backend->step->row_size * i);
  twostroke_row_result* result = &backend->rows[i];
  if (row->draft_count == 0) return;
  for (uint32_t d = 0; d < row->draft_count && d < DRAFTS_MAX; ++d) {
    backend->followings[d] = (twostroke_sampled){
        .token = 0, .logprob = -1.0f - (float)d, .rank = 2 + d, .top_count = 1, .top = backend->top};
  }
  result->following_count = row->draft_count;
  result->following = backend->followings;
  twostroke_sampled* last = &backend->followings[row->draft_count - 1];
  if (is(backend, "many_following")) ++result->following_count;
  if (is(backend, "null_following")) result->following = NULL;
  if (is(backend, "wrong_following")) backend->followings[0].token = 1;
  if (is(backend, "huge_following")) last->token = VOCAB;
  if (is(backend, "nan_following")) last->logprob = (float)NAN;
  if (is(backend, "many_following_top")) last->top_count = UINT32_MAX;
}

static int wait(twostroke_backend* backend, const twostroke_result** result) {
  for (int i = 0; i < TOP; ++i) backend->top[i] = (twostroke_logprob){i, -1.0f - (float)i};
  if (is(backend, "bad_top_token")) backend->top[2].token = VOCAB;
  if (is(backend, "bad_top_logprob")) backend->top[2].logprob = -INFINITY;
  for (uint32_t i = 0; i < backend->row_count; ++i) {
    backend->rows[i] = (twostroke_row_result){.struct_size = sizeof(backend->rows[i]),
                                              .status = TWOSTROKE_ROW_OK,
                                              .token = 0,
                                              .logprob = -1.0f,
                                              .top_count = TOP,
                                              .top = backend->top,
                                              .rank = 1};
    do_prompt_work(backend, i);
    follow_drafts(backend, i);
    if (is(backend, "first_version")) {
      backend->rows[i].struct_size = offsetof(twostroke_row_result, rank);
      backend->rows[i].rank = 0xffffffffu; /* not part of the struct then: nobody may look */
    }
  }
  break_row(backend, &backend->rows[backend->row_count - 1]);
  backend->result = (twostroke_result){.struct_size = sizeof(backend->result),
                                       .row_count = backend->row_count,
                                       .rows = backend->rows,
                                       .row_size = sizeof(backend->rows[0])};
  if (is(backend, "small_result")) backend->result.struct_size = 4;
  if (is(backend, "few_rows")) --backend->result.row_count;
  if (is(backend, "many_rows")) backend->result.row_count = UINT32_MAX;
  if (is(backend, "null_rows")) backend->result.rows = NULL;
  if (is(backend, "small_row_size")) backend->result.row_size = 8;
  *result = is(backend, "null_result") ? NULL : &backend->result;
  return TWOSTROKE_OK;
}

static const char* last_error(twostroke_backend* backend) { return is(backend, "unknown_code") ? NULL : ""; }

const twostroke_api* BROKEN_SYMBOL(void);

__attribute__((visibility("default"))) const twostroke_api* BROKEN_SYMBOL(void) {
  static const twostroke_api api = {
      .abi_version = BROKEN_ABI_VERSION,
      .struct_size = BROKEN_API_SIZE,
      .create = create,
      .destroy = destroy,
      .info = info,
      .submit = submit,
      .wait = BROKEN_NULL_WAIT ? NULL : wait,
      .last_error = last_error,
  };
  return BROKEN_NULL_API ? NULL : &api;
}
