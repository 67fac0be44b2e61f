#include "scheduler/cost/calibration.h"

#include <algorithm>

#include "scheduler/cost/step_probe.h"

namespace twostroke {
namespace {

// Of the time, by the end of each part; what is left after the last repeats.
constexpr double kChunksPart = 0.4;
constexpr double kDepthPart = 0.55;
constexpr double kDecodesPart = 0.75;
constexpr double kKindPart = 0.05;    // of the time, for running one kind once more
constexpr uint32_t kChunkMin = 16;    // tokens; what fewer take, decodes tell
constexpr uint32_t kDepthMin = 256;   // worth measuring at
constexpr uint32_t kDepthMax = 4096;  // enough to see what context costs
constexpr uint32_t kDeepChunk = 64;
// Beside a chunk: so many decodes, both about as deep as under load.
constexpr uint32_t kBesideDecodes = 4;
constexpr uint32_t kBesideMax = 384;  // tokens; larger steps are mostly of prompts that come to a resting server
constexpr uint32_t kBesideChunkDepth = 256;
constexpr uint32_t kBesideDecodeDepth = 128;
constexpr TimeNs kMeasurableNs = 1'000;  // a step that takes less takes no time

constexpr double kSlownessMax = 2;  // of one step that counts

// How much longer steps take on average than these costs say, which were fitted to medians: most of a machine's noise
// makes steps longer, and throughput is a matter of the mean. At least 1.
double mean_slowness(const std::vector<CostSample>& samples, const CostCoefficients& costs) {
  double sum = 0;
  for (const CostSample& sample : samples) {
    sum += std::min(static_cast<double>(sample.duration_ns) / predict_ns(costs, sample.shape), kSlownessMax);
  }
  return samples.empty() ? 1 : std::max(sum / static_cast<double>(samples.size()), 1.0);
}

void scale(CostCoefficients& costs, double factor) {
  for (double& time : costs.token_ns) time *= factor;
  costs.logit_ns *= factor;
  costs.prefill_position_ns *= factor;
  costs.decode_position_ns *= factor;
}

class Calibrator {
 public:
  Calibrator(Backend& backend, Clock& clock, const CalibrationOptions& options)
      : backend_(backend), clock_(clock), options_(options), probe_(backend, clock), began_(clock.now()) {}

  Result<Calibration> run() {
    // The first step finds cold caches, and memory that nobody has touched.
    if (Status status = warm_up(); !status.ok()) return status;
    if (Status status = chunks(); !status.ok()) return status;
    if (Status status = deepen(); !status.ok()) return status;
    if (Status status = decodes(); !status.ok()) return status;
    if (Status status = repeat_chunks(); !status.ok()) return status;
    Calibration calibration;
    calibration.duration_ns = clock_.now() - began_;
    if (std::ranges::all_of(samples_, [](const CostSample& s) { return s.duration_ns < kMeasurableNs; })) {
      return unsupported("the backend's steps take no time that could be measured");
    }
    calibration.costs = fit_costs(samples_, guess_costs(backend_.info()));
    scale(calibration.costs, mean_slowness(all_, calibration.costs));
    calibration.error_ratio = median_error(samples_, calibration.costs);
    calibration.samples = std::move(samples_);
    return calibration;
  }

 private:
  bool has_time(double part, TimeNs next_ns) const {
    return static_cast<double>(clock_now() - began_ + next_ns) < part * static_cast<double>(options_.time_max_ns);
  }
  TimeNs clock_now() const { return clock_.now(); }

  Status warm_up() {
    const ProbeRow row{.tokens = 1, .decodes = true};
    if (!probe_.fits({&row, 1})) return unsupported("the KV memory is too small for a calibration");
    const Result<CostSample> sample = probe_.run({&row, 1});
    return sample.ok() ? Status() : sample.status();
  }

  struct Kind {
    std::vector<ProbeRow> rows;
    std::vector<CostSample> samples;
  };

  Status run_once(Kind& kind) {
    Result<CostSample> sample = probe_.run(kind.rows);
    if (!sample.ok()) return sample.status();
    kind.samples.push_back(*sample);
    return {};
  }
  // Whether one more of this kind takes neither too much of the time nor more than is left of `part` of it.
  bool may_repeat(const Kind& kind, double part) const {
    const TimeNs once_ns = kind.samples.front().duration_ns;
    return static_cast<double>(once_ns) < kKindPart * static_cast<double>(options_.time_max_ns) &&
           has_time(part, once_ns);
  }
  void take_median(Kind& kind) {
    all_.insert(all_.end(), kind.samples.begin(), kind.samples.end());
    // Of two the faster: the first of a kind finds memory that nobody has touched.
    const auto median = kind.samples.begin() + static_cast<int64_t>(kind.samples.size() - 1) / 2;
    std::ranges::nth_element(kind.samples, median, {}, &CostSample::duration_ns);
    samples_.push_back(*median);
  }

  // Each knot from kChunkMin on; sizes double where a step takes long, so that large ones are reached.
  Status chunks() {
    TimeNs expected_ns = 0;
    for (const uint32_t tokens : kCostKnots) {
      if (tokens < kChunkMin) continue;
      if (!chunks_.empty()) expected_ns = last_chunk_ns() * tokens / chunks_.back().rows.front().tokens;
      const bool fine = (tokens & (tokens - 1)) == 0;
      if (!fine && expected_ns * 20 > options_.time_max_ns) continue;
      if (!has_time(kChunksPart, expected_ns)) return {};
      if (Status status = add_chunk({.tokens = tokens, .decodes = false}); !status.ok()) return status;
    }
    return {};
  }
  // Unless it does not fit.
  Status add_chunk(const ProbeRow& row) {
    if (!probe_.fits({&row, 1})) return {};
    chunks_.push_back({.rows = {row}});
    return run_once(chunks_.back());
  }
  TimeNs last_chunk_ns() const { return chunks_.back().samples.back().duration_ns; }

  // The largest step that is known to be cheap enough, again and again.
  Status deepen() {
    if (chunks_.empty()) return {};
    const auto step = static_cast<uint32_t>(backend_.info().step_tokens_max);
    const uint32_t chunk = std::min({step, chunks_.back().rows.front().tokens, 512U});
    TimeNs chunk_ns = last_chunk_ns();
    while (probe_.depth() + chunk <= std::min(probe_.depth_max(), kDepthMax)) {
      if (probe_.depth() >= kDepthMin && !has_time(kDepthPart, chunk_ns)) break;
      if (!has_time(1, chunk_ns)) break;
      const Result<CostSample> sample = probe_.extend(chunk);
      if (!sample.ok()) return sample.status();
      if (probe_.depth() > chunk) samples_.push_back(*sample);
      chunk_ns = sample->duration_ns;
    }
    return has_time(kDepthPart, 0) ? add_chunk({.position = probe_.depth(), .tokens = kDeepChunk, .decodes = false})
                                   : Status();
  }

  // Batches of decodes, each a few times on end: decodes mostly follow decodes, and find the weights in the processor's
  // caches, as far as those hold them.
  Status decodes() {
    TimeNs last_ns = 0;
    for (uint32_t count = 1; count <= options_.decode_rows_max; count *= 2) {
      for (const uint32_t position : {0U, probe_.depth()}) {
        Kind kind{.rows = std::vector<ProbeRow>(count, ProbeRow{.position = position, .tokens = 1, .decodes = true})};
        if (!probe_.fits(kind.rows) || !has_time(kDecodesPart, last_ns)) continue;
        for (int i = 0; i < kCalibrationRepeats && (i == 0 || may_repeat(kind, kDecodesPart)); ++i) {
          if (Status status = run_once(kind); !status.ok()) return status;
        }
        last_ns = kind.samples.back().duration_ns;
        take_median(kind);
      }
    }
    return {};
  }

  // A step of as many tokens, but mixed: small ones hardly ever have a chunk alone. The same where it does not fit.
  std::vector<ProbeRow> beside_decodes(const std::vector<ProbeRow>& rows) const {
    const ProbeRow& chunk = rows.front();
    if (chunk.position > 0 || chunk.tokens <= 2 * kBesideDecodes || chunk.tokens > kBesideMax) return rows;
    std::vector<ProbeRow> mixed(
        kBesideDecodes, {.position = std::min(probe_.depth(), kBesideDecodeDepth), .tokens = 1, .decodes = true});
    mixed.push_back({.position = std::min(probe_.depth(), kBesideChunkDepth),
                     .tokens = chunk.tokens - kBesideDecodes,
                     .decodes = false});
    return probe_.fits(mixed) ? mixed : rows;
  }

  // Short and long chunks in turns: beside decodes hardly a chunk is like the one before, and a short one behind a long
  // one finds the caches full of other things.
  Status repeat_chunks() {
    std::vector<Kind> repeated;
    for (const Kind& kind : chunks_) repeated.push_back({.rows = beside_decodes(kind.rows), .samples = {}});
    for (int i = 1; i < kCalibrationRepeats; ++i) {
      for (size_t low = 0, high = chunks_.size(); low < high;) {
        for (const size_t k : {low++, low < high ? --high : chunks_.size()}) {
          if (k == chunks_.size() || !may_repeat(chunks_[k], 1)) continue;
          if (Status status = run_once(repeated[k]); !status.ok()) return status;
        }
      }
    }
    for (size_t k = 0; k < chunks_.size(); ++k) {
      // The first of a kind counts towards what steps take on average: load seldom has one kind twice in a row.
      if (!repeated[k].samples.empty()) all_.push_back(chunks_[k].samples.front());
      take_median(repeated[k].samples.empty() ? chunks_[k] : repeated[k]);
    }
    return {};
  }

  Backend& backend_;
  Clock& clock_;
  const CalibrationOptions options_;
  StepProbe probe_;
  const TimeNs began_;
  std::vector<Kind> chunks_;
  std::vector<CostSample> samples_;  // that the costs are fitted to
  std::vector<CostSample> all_;
};

}  // namespace

Result<Calibration> calibrate(Backend& backend, Clock& clock, const CalibrationOptions& options) {
  return Calibrator(backend, clock, options).run();
}

}  // namespace twostroke
