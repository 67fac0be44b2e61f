// StepPlan and StepResult: what one iteration of the engine does, and what came of it.
//
// A step is a flat list of rows. A row is one sequence's slice of consecutive tokens: a decode (one token), or a
// prefill chunk (any number). There is no prefill mode and no decode mode; rows of both kinds share the pass.
//
// Drafts: the last draft_count tokens of a sampling row may be guesses at what follows its history. The backend draws
// the token behind every position from the last known one on, each as it would without drafts: from the logits behind
// the tokens before it, with a history that ends there, by the draw that belongs to its position. While a drawn token
// is the draft at its place, the logits behind that draft are the ones wanted, and it goes on; the first token that
// differs, or the one behind the last draft, is the row's last. So what comes out is what steps of one token each would
// have drawn, token for token, greedy and sampled alike, as long as a token's logits do not depend on how many share
// its step. (It is rejection sampling against drafts that are certain, arXiv:2211.17192, where accepting with
// probability p(draft) and drawing from the rest otherwise is nothing but drawing once and comparing.) Keys and values
// of drafts that were not accepted stay behind; whoever computes those positions next overwrites them.
//
// Ownership: the plan owns its arrays; spans inside rows (history, targets, sampling lists) are borrowed from the
// scheduler and stay valid and unchanged from submit() until wait() returns. A mask's memory too, but what it says may
// come as late as the call of wait(): see Backend. Thread-safety: plain values, step thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/token.h"

namespace twostroke {

using BlockId = uint32_t;
using SequenceId = uint64_t;  // unique for the life of an engine, never reused

// How a row's next token is chosen. The order in which the parts apply, and each formula, is in backend/sampler.h.
struct SamplingParams {
  float temperature = 1;                              // 0 chooses the most probable token
  float top_p = 1;                                    // (0, 1]; 1 is off
  float min_p = 0;                                    // [0, 1]; 0 is off
  int32_t top_k = 0;                                  // 0 is off
  float presence_penalty = 0;                         // [-2, 2]
  float frequency_penalty = 0;                        // [-2, 2]
  float repetition_penalty = 1;                       // > 0; 1 is off
  uint64_t seed = 0;                                  // the draw for position p is a pure function of (seed, p)
  int32_t logprobs = -1;                              // -1: none; 0: the chosen token's; N: also the N most probable
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to logits; at most one entry per token

  bool has_penalties() const { return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1; }
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// What is read out of the model at the end of a prompt in the place of a next token: its hidden state behind the last
// norm, which is what the output matrix would be multiplied with.
enum class Pooling : uint8_t {
  kNone,
  kMean,  // the mean over all positions of the prompt
  kLast,  // that of its last position
};

struct Row {
  SequenceId sequence = 0;
  uint32_t token_begin = 0;  // its tokens are plan.tokens[token_begin, token_begin + token_count)
  uint32_t token_count = 0;  // >= 1, drafts included
  uint32_t position = 0;     // of its first token in the sequence; positions before it are in the cache already
  uint32_t block_begin = 0;  // its block table is plan.blocks[block_begin, block_begin + block_count);
  uint32_t block_count = 0;  // it covers at least position + token_count positions
  // The tokens right before `position` whose keys and values were computed elsewhere and come with this row: the
  // backend puts them into the row's blocks before any row of the step runs. Empty unless BackendInfo::imports_kv.
  std::span<const TokenId> imported;
  bool samples = false;  // choose the token that follows the row's last one; false for a chunk that ends mid-prompt
  // targets[i] is the token that follows the row's i-th one in the prompt, and its log-probability is wanted. At most
  // token_count of them; empty: none.
  std::span<const TokenId> targets;
  uint32_t target_logprobs = 0;      // with each target, so many of the most probable tokens
  Pooling pooling = Pooling::kNone;  // kMean: the sum of the states of the row's tokens; kLast: that of its last token
  // The rest is for sampling rows only.
  const SamplingParams* sampling = nullptr;
  std::span<const TokenId> history;  // all tokens so far: prompt, then output; of position + token_count - draft_count
  uint32_t prompt_count = 0;         // how many of `history` are prompt
  std::span<const uint32_t> mask;    // bit t of word t / 32: token t may come next; empty when unconstrained
  // How many of its tokens, the last ones, are drafts; less than token_count. Not with a mask or targets, and in a step
  // no more than BackendInfo::step_drafts_max, all rows together.
  uint32_t draft_count = 0;

  std::span<const TokenId> drafts_in(std::span<const TokenId> plan_tokens) const {
    return plan_tokens.subspan(token_begin + token_count - draft_count, draft_count);
  }
};

struct BlockCopy {
  BlockId source = 0;
  BlockId target = 0;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

struct StepPlan {
  uint64_t step = 0;  // counts up from 1
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
  std::vector<BlockCopy> copies;  // done in order, before any row
  std::vector<Row> rows;          // decodes first

  bool empty() const { return rows.empty(); }
  void clear() { tokens.clear(), blocks.clear(), copies.clear(), rows.clear(); }
};

enum class RowStatus : uint8_t {
  kOk,
  kNotFinite,  // logits or states held NaN or infinity where a number was needed, or every token was masked
};

// How probable one token is, under the model's own distribution (before masks, bias, penalties and temperature).
struct TokenScore {
  float logprob = 0;              // finite: a probability of 0 gives the lowest float
  uint32_t rank = 0;              // 1 + how many tokens are more probable; 0: not known (see BackendInfo)
  std::vector<TokenLogprob> top;  // the most probable tokens, best first
  friend bool operator==(const TokenScore&, const TokenScore&) = default;
};

// A token that was drawn. RowResult says the same of its first one.
struct SampledToken {
  TokenId token = -1;
  float logprob = 0;
  uint32_t rank = 0;
  std::vector<TokenLogprob> top;
  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};

struct RowResult {
  RowStatus status = RowStatus::kOk;
  TokenId token = -1;  // -1 for a row that does not sample, or failed
  // Of `token` under the model's own distribution (before bias, penalties and temperature); 0 where
  // sampling.logprobs is -1.
  float logprob = 0;
  uint32_t rank = 0;                // of `token` in that distribution: TokenScore::rank
  std::vector<TokenLogprob> top;    // its most probable tokens, best first; sampling.logprobs of them
  std::vector<TokenScore> targets;  // of each of the row's targets, with Row::target_logprobs most probable tokens
  std::vector<float> hidden;        // [BackendInfo::embedding_size] of a row that pools; empty otherwise
  // Of a row with drafts: what was drawn behind `token`, in order. Each but the last, and `token` before them, is the
  // draft at its place. A draft whose logits are not finite, or from which nothing can be drawn, ends the row before
  // it, and is no failure: the row that computes it again, as a token of its own, meets that.
  std::vector<SampledToken> following;

  // A row of which nothing was wanted; keeps memory.
  void reset() {
    status = RowStatus::kOk, token = -1, logprob = 0, rank = 0;
    top.clear(), targets.clear(), hidden.clear(), following.clear();
  }
};

struct StepResult {
  std::vector<RowResult> rows;  // as many as the plan's, in its order
};

}  // namespace twostroke
