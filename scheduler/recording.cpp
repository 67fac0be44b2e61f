// What the journal gets of a step's result: as much of it as decides anything.
#include "kernels/check.h"
#include "scheduler/scheduler_impl.h"

namespace twostroke {

void Scheduler::Impl::record_commit(const StepPlan& plan, const StepResult& result, TimeNs now) {
  CHECK(plan.rows.size() == step_.rows.size(), "commit() of a plan that is not the last one");
  journal_->commit(now, result.rows.size());
  for (size_t i = 0; i < result.rows.size(); ++i) {
    // With another number of rows the step is lost, and what they hold decides nothing.
    if (result.rows.size() == plan.rows.size()) {
      const RowResult& row = result.rows[i];
      journal_->row(recorded_result(*step_.rows[i].sequence, plan.rows[i], row), row.following);
    } else {
      journal_->row({}, {});
    }
  }
}

RecordedResult Scheduler::Impl::recorded_result(const Sequence& sequence, const Row& row,
                                                const RowResult& result) const {
  RecordedResult recorded;
  recorded.finite = result.status == RowStatus::kOk;
  recorded.token = result.token;
  recorded.targets_fit = result.targets.size() == row.targets.size();
  recorded.hidden_fits = row.pooling == Pooling::kNone || result.hidden.size() == embedding_size_;
  if (!row.mask.empty() && !sequence.request->request.constraints.empty()) {
    const auto token = static_cast<uint32_t>(result.token);
    const bool taken = token < vocab_size_ && ((row.mask[token / 32] >> (token % 32)) & 1) != 0;
    recorded.mask = !sequence.mask_allows ? MaskVerdict::kStuck : taken ? MaskVerdict::kTaken : MaskVerdict::kBroken;
  }
  return recorded;
}

}  // namespace twostroke
