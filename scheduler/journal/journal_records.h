// JournalRecord: one call of the Scheduler as the journal keeps it (journal.h), and what the plan of that time was.
//
// Which fields a struct has is written down once, in write_fields() and read_fields() below: a field that is added to
// one of these structs does not compile until the journal has it too. A change of the layout raises
// kJournalFormatVersion.
//
// Thread-safety: plain values.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backend/backend.h"
#include "kernels/status.h"
#include "scheduler/journal/journal_bytes.h"
#include "scheduler/scheduler.h"

namespace twostroke {

// Who wrote the file. Its first record.
struct RecordedProgram {
  std::string version;
  int64_t unix_seconds = 0;
};

// The constructor: limits after cutting, and the backend.
struct RecordedScheduler {
  SchedulerLimits limits;
  BackendInfo info;
};

struct RecordedSubmit {
  Request request;  // without its constraints, which are objects outside
  uint32_t constraints = 0;
  TimeNs now = 0;
  StatusCode outcome = StatusCode::kOk;
};

struct RecordedCancel {
  RequestId request = 0;
  TimeNs now = 0;
};

struct RecordedFinish {
  RequestId request = 0;
  uint32_t sequence = 0;
  TimeNs now = 0;
};

struct RecordedFailAll {
  StatusCode code = StatusCode::kInternal;
  TimeNs now = 0;
};

// As much of a row as shows people what was decided; the digest covers all of it.
struct RecordedRow {
  SequenceId sequence = 0;
  uint32_t position = 0;
  uint32_t token_count = 0;
  uint32_t draft_count = 0;
  bool samples = false;
  friend bool operator==(const RecordedRow&, const RecordedRow&) = default;
};

struct RecordedSchedule {
  TimeNs now = 0;
  uint64_t step = 0;  // 0: nothing could run
  uint64_t digest = 0;
  uint32_t preemptions = 0;
  StepBudget budget;  // of prefill
  std::vector<RecordedRow> rows;
};

// What the mask of a constrained row came to. The constraint itself is not there in a replay.
enum class MaskVerdict : uint8_t {
  kNone,    // the row has no constraint
  kStuck,   // nothing was allowed
  kTaken,   // the row's token was
  kBroken,  // something was, but not the row's token
};

// As much of a row's result as decides anything.
struct RecordedResult {
  bool finite = true;
  TokenId token = -1;
  std::vector<TokenId> following;  // tokens behind it, of a row with drafts
  MaskVerdict mask = MaskVerdict::kNone;
  bool targets_fit = true;  // as many scores as the row has targets
  bool hidden_fits = true;  // a state of the model's size, where the row pools
};

struct RecordedCommit {
  TimeNs now = 0;
  std::vector<RecordedResult> rows;
  uint64_t events_digest = 0;
};

struct RecordedFail {
  StatusCode code = StatusCode::kInternal;
  TimeNs now = 0;
  uint64_t events_digest = 0;
};

struct RecordedLearn {             // learn()
  std::optional<StepShape> shape;  // nothing: that of the plan before it
  TimeNs duration_ns = 0;
};

struct RecordedDrain {};  // drain_events()

// The journal's own last record, where it ended in order.
struct RecordedEnd {
  std::string reason;
};

using JournalRecord =
    std::variant<RecordedProgram, RecordedScheduler, RecordedSubmit, RecordedCancel, RecordedFinish, RecordedFailAll,
                 RecordedSchedule, RecordedCommit, RecordedFail, RecordedDrain, RecordedEnd, RecordedLearn>;

// ---- The fields, in their order in the file. `Io` is a ByteWriter or a ByteReader.

constexpr Order last_of(Order) { return Order::kShortest; }
constexpr Pooling last_of(Pooling) { return Pooling::kLast; }
constexpr StatusCode last_of(StatusCode) { return StatusCode::kInternal; }
constexpr ChunkReason last_of(ChunkReason) { return static_cast<ChunkReason>(kChunkReasons - 1); }
constexpr MaskVerdict last_of(MaskVerdict) { return MaskVerdict::kBroken; }

// Whether it is there, then what it holds.
template <typename Io, typename Optional, typename Fields>
void optional_fields(Io& io, Optional& value, Fields&& fields) {
  bool there = value.has_value();
  io(there);
  if constexpr (!std::is_const_v<Optional>) {
    if (there) value.emplace();
  }
  if (there) fields(*value);
}

template <typename Io, typename Costs>
void costs_fields(Io& io, Costs& costs) {
  auto& [token_ns, logit_ns, prefill_position_ns, decode_position_ns] = costs;
  io(token_ns, logit_ns, prefill_position_ns, decode_position_ns);
}

template <typename Io, typename Limits>
void limits_fields(Io& io, Limits& limits) {
  auto& [step_tokens, running, chunk_tokens, itl_target_ns, waiting_requests, waiting_tokens, order, aging_ms,
         overtakes, preemptions, prefix_cache, costs, draft_tokens] = limits;
  io(step_tokens, running, chunk_tokens, itl_target_ns, waiting_requests, waiting_tokens, order, aging_ms, overtakes,
     preemptions, prefix_cache, draft_tokens);
  optional_fields(io, costs, [&io](auto& some) { costs_fields(io, some); });
}

template <typename Io, typename Shape>
void shape_fields(Io& io, Shape& shape) {
  auto& [prefill_rows, prefill_tokens, decode_rows, decode_tokens, logit_tokens, prefill_context, decode_context,
         prefill_positions, decode_positions] = shape;
  io(prefill_rows, prefill_tokens, decode_rows, decode_tokens, logit_tokens, prefill_context, decode_context,
     prefill_positions, decode_positions);
}

template <typename Io, typename Info>
void info_fields(Io& io, Info& info) {
  auto& [name, vocab_size, context_max, block_size, block_count, step_tokens_max, step_rows_max, flops_per_token,
         output_flops, attention_flops, weight_bytes, kv_bytes, peak_flops, peak_bytes, embedding_size, scores_targets,
         late_masks, step_drafts_max, imports_kv] = info;
  io(name, vocab_size, context_max, block_size, block_count, step_tokens_max, step_rows_max, flops_per_token,
     output_flops, attention_flops, weight_bytes, kv_bytes, peak_flops, peak_bytes, embedding_size, scores_targets,
     late_masks, step_drafts_max, imports_kv);
}

template <typename Io, typename Sampling>
void sampling_fields(Io& io, Sampling& sampling) {
  auto& [temperature, top_p, min_p, top_k, presence, frequency, repetition, seed, logprobs, bias] = sampling;
  io(temperature, top_p, min_p, top_k, presence, frequency, repetition, seed, logprobs, bias);
}

template <typename Io, typename AnyRequest>
void request_fields(Io& io, AnyRequest& request) {
  auto& [id, prompt, max_tokens, n, sampling, stop_tokens, cache_salt, use_prefix_cache, remote_tokens, allowed_tokens,
         bad_words, min_tokens, prompt_logprobs, pooling, priority, objectives, tenant, tenant_weight, constraints] =
      request;
  io(id, prompt, max_tokens, n, stop_tokens, cache_salt, use_prefix_cache, remote_tokens, allowed_tokens, bad_words,
     min_tokens, prompt_logprobs, pooling, priority, tenant, tenant_weight);
  auto& [ttft_ns, tpot_ns] = objectives;
  io(ttft_ns, tpot_ns);
  sampling_fields(io, sampling);
}

}  // namespace twostroke
