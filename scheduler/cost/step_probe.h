// StepProbe: runs made-up steps on a backend and takes their time, for calibration and benchmarks.
//
// One sequence of made-up tokens, the chain, fills the first blocks of the KV memory, as far as extend() has computed
// it. Rows of run() begin anywhere in it, at the beginning of a block: they read what is before that, and write to
// blocks of their own, which the next step's rows write again. So a step of any shape takes one step to set up.
//
// All rows read the chain itself, which then stays in the processor's caches. Those of sequences do not, so spread()
// gives rows copies of their own.
//
// It owns the whole KV memory while it is used: before the scheduler is. Nothing of it stays but the contents of
// blocks, which a scheduler never reads before it has written them.
//
// Thread-safety: one thread; no other steps run meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "kernels/clock.h"
#include "kernels/status.h"
#include "scheduler/cost/cost_fit.h"

namespace twostroke {

struct ProbeRow {
  uint32_t position = 0;  // rounded down to the beginning of a block; at most StepProbe::depth()
  uint32_t tokens = 1;
  bool decodes = true;  // of one token, which samples; otherwise a chunk in mid-prompt
};

class StepProbe {
 public:
  // Both outlive the probe.
  StepProbe(Backend& backend, Clock& clock);

  // How far the chain is computed, and may be: half of the KV memory at most.
  uint32_t depth() const { return depth_; }
  uint32_t depth_max() const { return depth_max_; }

  // Computes so many more tokens of the chain. Requires them to fit into depth_max() and a step.
  Result<CostSample> extend(uint32_t tokens);
  // Of the next steps the first row reads the chain, and each of the `rows - 1` behind it a copy of its own of the
  // chain's first `positions` (rounded down to whole blocks), as far as it reads so deep. In the place of the copies
  // before. Requires positions <= depth() and rows <= spread_rows_max(positions). Takes a step.
  Status spread(uint32_t rows, uint32_t positions);
  // How many rows the KV memory has room for, each with so many positions of its own. At least 1.
  uint32_t spread_rows_max(uint32_t positions) const;

  // Whether these rows fit into a step, the context and the KV memory.
  bool fits(std::span<const ProbeRow> rows) const;
  // Requires fits(rows).
  Result<CostSample> run(std::span<const ProbeRow> rows);

 private:
  void add_row(uint32_t position, uint32_t tokens, bool samples, bool on_chain);
  uint32_t own_blocks_max() const;  // that the rows of a step write
  Result<CostSample> time_step(const StepShape& shape);
  uint32_t blocks_for(uint32_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }

  Backend& backend_;
  Clock& clock_;
  const uint32_t block_size_;
  const uint32_t block_count_;
  const uint32_t depth_max_;
  uint32_t depth_ = 0;
  std::vector<TokenId> tokens_;  // [context_max] of the chain and, beyond it, of every row
  SamplingParams greedy_;
  uint32_t copies_ = 0;       // rows that have one
  uint32_t copy_blocks_ = 0;  // in each of them, from the end of the KV memory on backwards
  uint32_t next_block_ = 0;   // of a row's own
  StepPlan plan_;
  StepResult result_;
};

}  // namespace twostroke
