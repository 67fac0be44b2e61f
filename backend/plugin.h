/* The step-level plug-in interface: a C ABI behind which anyone can build a backend for twostroke.
 *
 * A plug-in is a shared object that exports twostroke_plugin(). The server loads it with dlopen, checks version and
 * sizes, creates one backend and calls it once per step. Nothing but plain C data crosses: no exceptions, no C++ types,
 * no ownership. tests/backend/plugins/ holds a complete one in C.
 *
 * Rules
 * - Every struct that may grow starts with `struct_size`. Who fills it sets the size it knows; who reads it uses no
 * field beyond that size. Fields are only ever added at the end; any other change raises TWOSTROKE_ABI_VERSION.
 * - The caller's memory (options, steps) is borrowed until the call returns; that of submit() until the next wait()
 * returns.
 * - Memory that a plug-in returns (info, result, messages) stays valid until the next call on the same backend.
 * - submit() and wait() are called from one thread at a time, in turn, one step in flight; first from the thread that
 *   created the backend, to find out what steps cost, later from another.
 * - Drafts: the last draft_count tokens of a row that samples may be guesses. Draw behind the token before them, with
 * the history that is given; while the token that was drawn is the next draft, draw behind that too, exactly as if the
 * row had ended there and its history held the drafts so far (the penalties count them, and the position that the draw
 * belongs to is theirs); backend/step.h says why. Only where twostroke_info.step_drafts_max is not 0.
 * - What a row's mask says is final when wait() is called. With TWOSTROKE_LATE_MASKS it may not be before, so that the
 * server can compute masks while the step runs: read them in wait() alone. Without it they are there at submit().
 * - Functions return 0 (TWOSTROKE_OK) or an error code; last_error() then gives a message for people.
 * TWOSTROKE_ERROR_DEAD means that no later step can work; TWOSTROKE_ERROR_STEP that this step is lost and the next may
 * be tried.
 */
#ifndef TWOSTROKE_BACKEND_PLUGIN_H
#define TWOSTROKE_BACKEND_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TWOSTROKE_ABI_VERSION 1u

enum { TWOSTROKE_OK = 0, TWOSTROKE_ERROR_STEP = 1, TWOSTROKE_ERROR_DEAD = 2, TWOSTROKE_ERROR_OPTIONS = 3 };
enum { TWOSTROKE_ROW_OK = 0, TWOSTROKE_ROW_NOT_FINITE = 1 };
enum { TWOSTROKE_POOLING_NONE = 0, TWOSTROKE_POOLING_MEAN = 1, TWOSTROKE_POOLING_LAST = 2 };

/* What a plug-in can do, bits of twostroke_info.features. */
enum {
  TWOSTROKE_SCORES_TARGETS = 1, /* rows may have targets; ranks are filled */
  TWOSTROKE_LATE_MASKS = 2      /* masks are read in wait() only */
};

typedef struct twostroke_options {
  uint32_t struct_size;
  const char* model_path;   /* the model file; "" when none was given */
  const char* plugin_args;  /* free text of the operator, meant for the plug-in alone; "" when none was given */
  uint64_t kv_bytes;        /* memory to spend on KV blocks; 0: the plug-in decides */
  uint32_t block_size;      /* positions in a KV block */
  uint32_t context_max;     /* tokens of a sequence at most; 0: the model's own limit */
  uint32_t step_tokens_max; /* tokens that a step will carry at most */
  uint32_t step_rows_max;   /* rows that a step will carry at most */
} twostroke_options;

typedef struct twostroke_info {
  uint32_t struct_size;
  const char* name;
  uint32_t vocab_size;
  uint32_t context_max;
  uint32_t block_size;
  uint32_t block_count;
  uint32_t step_tokens_max;
  uint32_t step_rows_max;
  double flops_per_token; /* of the matrix products; 0 when unknown, as the next two */
  double weight_bytes;
  double kv_bytes_per_token;
  /* From here on: absent in the first plug-ins of this version, and then taken as 0. */
  uint32_t features;       /* TWOSTROKE_SCORES_TARGETS, ...; unknown bits are ignored */
  uint32_t embedding_size; /* numbers of a hidden state; 0: rows cannot pool */
  double output_flops;     /* of the output product, for each token whose logits are needed; flops_per_token is then
                              that of the rest */
  double attention_flops_per_position; /* of one token for each position that it attends to, all layers together */
  double peak_flops;                   /* of the device, per second; 0 when unknown, as the next */
  double peak_bytes_per_second;        /* read from the memory that holds weights and KV */
  uint32_t step_drafts_max;            /* drafts that the rows of one step may carry together; 0: rows have none */
} twostroke_info;

typedef struct twostroke_bias {
  int32_t token;
  float bias;
} twostroke_bias;

typedef struct twostroke_sampling {
  uint32_t struct_size;
  float temperature;
  float top_p;
  float min_p;
  int32_t top_k;
  float presence_penalty;
  float frequency_penalty;
  float repetition_penalty;
  uint64_t seed;
  int32_t logprobs; /* -1: none; 0: the chosen token's; N: also the N most probable */
  uint32_t bias_count;
  const twostroke_bias* bias;
} twostroke_sampling;

typedef struct twostroke_row {
  uint32_t struct_size;
  uint32_t samples; /* 1: choose the token behind the row's last one */
  uint64_t sequence;
  uint32_t token_begin, token_count;  /* slice of step.tokens */
  uint32_t position;                  /* of the first token */
  uint32_t block_begin, block_count;  /* slice of step.blocks */
  uint32_t prompt_count;              /* how many of `history` are prompt */
  const twostroke_sampling* sampling; /* null unless samples */
  const int32_t* history;             /* null unless samples: all position + token_count - draft_count tokens so far */
  const uint32_t* mask;               /* null when unconstrained: (vocab_size + 31) / 32 words */
  /* From here on: absent in the first servers of this version, and then to be taken as 0. */
  const int32_t* targets;   /* targets[i] follows the row's i-th token: how probable is it there? */
  uint32_t target_count;    /* at most token_count; 0 unless TWOSTROKE_SCORES_TARGETS */
  uint32_t target_logprobs; /* with each, so many of the most probable tokens */
  uint32_t pooling;         /* TWOSTROKE_POOLING_...; not with samples, and only where embedding_size is not 0 */
  const int32_t* drafts;    /* the row's last draft_count tokens; null where there are none */
  uint32_t draft_count;     /* less than token_count; 0 with a mask or targets */
} twostroke_row;

typedef struct twostroke_copy {
  uint32_t source, target;
} twostroke_copy;

typedef struct twostroke_step {
  uint32_t struct_size;
  uint32_t row_count;
  uint64_t step;
  const int32_t* tokens;
  const uint32_t* blocks;
  const twostroke_copy* copies; /* done in order, before any row */
  const twostroke_row* rows;    /* row i lies row_size * i bytes behind `rows` */
  uint32_t token_count, block_count, copy_count;
  uint32_t row_size; /* sizeof(twostroke_row) of the caller */
} twostroke_step;

typedef struct twostroke_logprob {
  int32_t token;
  float logprob;
} twostroke_logprob;

/* How probable one target is, under the model's own distribution. This struct does not grow. */
typedef struct twostroke_score {
  float logprob; /* finite */
  uint32_t rank; /* 1 + how many tokens are more probable */
  uint32_t top_count;
  const twostroke_logprob* top; /* best first */
} twostroke_score;

/* A token that was drawn behind an accepted draft. This struct does not grow. */
typedef struct twostroke_sampled {
  int32_t token;
  float logprob; /* this and what follows as in twostroke_row_result */
  uint32_t rank;
  uint32_t top_count;
  const twostroke_logprob* top;
} twostroke_sampled;

typedef struct twostroke_row_result {
  uint32_t struct_size;
  int32_t status; /* TWOSTROKE_ROW_... */
  int32_t token;  /* -1 when the row does not sample */
  float logprob;
  uint32_t top_count;
  const twostroke_logprob* top;
  /* From here on: absent in the first plug-ins of this version, and then taken as 0. */
  uint32_t rank;                  /* of `token`, where its log-probability is asked for; as in twostroke_score */
  uint32_t target_count;          /* as many as the row's */
  const twostroke_score* targets; /* of each target */
  const float*
      hidden; /* embedding_size numbers of a row that pools, null otherwise. The state is what the output matrix
                 is multiplied with: MEAN: the sum over the row's tokens (not divided); LAST: of the last */
  uint32_t following_count;           /* tokens behind `token`, of a row with drafts: at most draft_count */
  const twostroke_sampled* following; /* each but the last, and `token` before them, is the draft at its place. A draft
                                         whose logits are not finite ends the row before it, without a fault */
} twostroke_row_result;

typedef struct twostroke_result {
  uint32_t struct_size;
  uint32_t row_count; /* as many as the step's */
  const twostroke_row_result* rows;
  uint32_t row_size; /* sizeof(twostroke_row_result) of the plug-in */
} twostroke_result;

typedef struct twostroke_backend twostroke_backend; /* the plug-in's own */

typedef struct twostroke_api {
  uint32_t abi_version; /* TWOSTROKE_ABI_VERSION that the plug-in was built with */
  uint32_t struct_size;
  /* On failure *backend is null and `message`, of message_bytes, holds a zero-terminated explanation. */
  int (*create)(const twostroke_options* options, twostroke_backend** backend, char* message, uint32_t message_bytes);
  void (*destroy)(twostroke_backend* backend);
  const twostroke_info* (*info)(twostroke_backend* backend);
  int (*submit)(twostroke_backend* backend, const twostroke_step* step);
  int (*wait)(twostroke_backend* backend, const twostroke_result** result);
  const char* (*last_error)(twostroke_backend* backend);
} twostroke_api;

/* The one exported symbol. Returns a pointer to static memory. */
const twostroke_api* twostroke_plugin(void);
typedef const twostroke_api* (*twostroke_plugin_function)(void);
#define TWOSTROKE_PLUGIN_SYMBOL "twostroke_plugin"

#ifdef __cplusplus
}
#endif

#endif
