#include "server/simulate/workload.h"

#include <algorithm>

#include "server/simulate/random.h"
#include "server/simulate/simulated_time.h"

namespace twostroke::simulate {
namespace {

class CutWorkload final : public Workload {
 public:
  CutWorkload(std::unique_ptr<Workload> workload, const WorkloadWindow& window)
      : workload_(std::move(workload)),
        window_(window),
        begin_(static_cast<TimeNs>(window.from_seconds * 1e9)),
        end_(window.for_seconds > 0 ? begin_ + static_cast<TimeNs>(window.for_seconds * 1e9) : INT64_MAX) {}

  Result<bool> next(Arrival& arrival) override {
    if (window_.requests_max > 0 && given_ >= window_.requests_max) return false;
    while (true) {
      const Result<bool> more = workload_->next(arrival);
      if (!more.ok() || !*more) return more;
      if (arrival.time >= end_) return false;
      if (arrival.time >= begin_) break;
    }
    arrival.time = simulated_time(static_cast<double>(arrival.time - begin_) / window_.rate_scale);
    ++given_;
    return true;
  }

  double progress() const override {
    if (window_.requests_max == 0) return workload_->progress();
    return std::max(workload_->progress(), static_cast<double>(given_) / static_cast<double>(window_.requests_max));
  }

 private:
  std::unique_ptr<Workload> workload_;
  const WorkloadWindow window_;
  const TimeNs begin_;
  const TimeNs end_;
  uint64_t given_ = 0;
};

}  // namespace

void append_tokens(const TokenRun& run, uint32_t vocab_size, std::vector<TokenId>& tokens) {
  const size_t begin = tokens.size();
  tokens.resize(begin + run.length);
  // A Weyl sequence, whose upper bits are spread over the vocabulary: a few operations for each token.
  uint64_t state = mix_bits(run.seed);
  const uint64_t step = mix_bits(~run.seed) | 1;
  for (size_t i = begin; i < tokens.size(); ++i, state += step) {
    tokens[i] = static_cast<TokenId>(((state >> 32) * vocab_size) >> 32);
  }
}

std::unique_ptr<Workload> cut(std::unique_ptr<Workload> workload, const WorkloadWindow& window) {
  return std::make_unique<CutWorkload>(std::move(workload), window);
}

}  // namespace twostroke::simulate
