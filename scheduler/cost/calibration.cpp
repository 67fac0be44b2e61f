#include "scheduler/cost/calibration.h"

#include <algorithm>

#include "scheduler/cost/step_probe.h"

namespace twostroke {
namespace {

// Of the time, by the end of each part; what is left after the last repeats.
constexpr double kChunksPart = 0.4;
constexpr double kDepthPart = 0.5;
constexpr double kDecodesPart = 0.75;
constexpr double kKindPart = 0.08;    // of the time, for all steps of one kind but the first
constexpr uint32_t kChunkMin = 16;    // tokens; what fewer take, decodes tell
constexpr uint32_t kDepthMin = 256;   // worth measuring at
constexpr uint32_t kDepthMax = 2048;  // enough to see what context costs
constexpr uint32_t kDeepenChunk = 256;
constexpr uint32_t kDeepChunk = 64;
constexpr uint32_t kDeepChunkDepth = 1024;
// Beside a chunk: so many decodes, both about as deep as under load.
constexpr uint32_t kBesideDecodes = 4;
constexpr uint32_t kBesideMax = 384;  // tokens; larger steps are mostly of prompts that come to a resting server
constexpr uint32_t kBesideChunkDepth = 256;
constexpr uint32_t kBesideDecodeDepth = 128;
// Of decodes: how deep most are under load; and what all rows of a step may read together, each from memory of its own.
constexpr uint32_t kDecodeDepth = 256;
constexpr uint32_t kSpreadPositionsMax = 8192;
// Decodes mostly follow decodes, and each finds more of the weights in the processor's caches than the one before: a
// run of a few is like what there is between chunks. Large batches are busy enough with other things.
constexpr int kFirstDecodeRun = 2;  // so that time is left for large batches too
constexpr int kDecodeRun = 8;
constexpr int kLargeDecodeRun = 3;
constexpr uint32_t kLargeDecodes = 16;
constexpr double kSlownessMax = 2;  // of one step that counts, against the median of its kind

TimeNs median(std::vector<TimeNs> durations) {
  const auto middle = durations.begin() + static_cast<ptrdiff_t>((durations.size() - 1) / 2);
  std::ranges::nth_element(durations, middle);
  return *middle;
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
    if (Status status = repeat(); !status.ok()) return status;
    take_samples();
    Calibration calibration;
    calibration.duration_ns = clock_.now() - began_;
    if (std::ranges::all_of(samples_, [](const CostSample& s) { return s.duration_ns < kMeasurableStepNs; })) {
      return unsupported("the backend's steps take no time that could be measured");
    }
    calibration.costs = fit_costs(samples_, guess_costs(backend_.info()));
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
    StepShape shape;
    std::vector<TimeNs> durations;  // none only in repeated_
    TimeNs total_ns = 0;
  };

  Status run_once(Kind& kind) {
    const Result<CostSample> sample = probe_.run(kind.rows);
    if (!sample.ok()) return sample.status();
    kind.shape = sample->shape;
    kind.durations.push_back(sample->duration_ns);
    kind.total_ns += sample->duration_ns;
    return {};
  }
  // Whether one more of this kind, after a first one as long as `like`, takes neither too much of the time nor more
  // than is left of `part` of it.
  bool may_repeat(const Kind& kind, const Kind& like, double part) const {
    const TimeNs once_ns = like.durations.front();
    return static_cast<double>(kind.total_ns + once_ns) < kKindPart * static_cast<double>(options_.time_max_ns) &&
           has_time(part, once_ns);
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
  TimeNs last_chunk_ns() const { return chunks_.back().durations.back(); }

  // The largest step that is known to be cheap enough, again and again.
  Status deepen() {
    if (chunks_.empty()) return {};
    const auto step = static_cast<uint32_t>(backend_.info().step_tokens_max);
    const uint32_t chunk = std::min({step, chunks_.back().rows.front().tokens, kDeepenChunk});
    TimeNs chunk_ns = last_chunk_ns();
    while (probe_.depth() + chunk <= std::min(probe_.depth_max(), kDepthMax)) {
      if (probe_.depth() >= kDepthMin && !has_time(kDepthPart, chunk_ns)) break;
      if (!has_time(1, chunk_ns)) break;
      const Result<CostSample> sample = probe_.extend(chunk);
      if (!sample.ok()) return sample.status();
      if (probe_.depth() > chunk) samples_.push_back(*sample);
      chunk_ns = sample->duration_ns;
    }
    return has_time(kDepthPart, 0)
               ? add_chunk(
                     {.position = std::min(probe_.depth(), kDeepChunkDepth), .tokens = kDeepChunk, .decodes = false})
               : Status();
  }

  // Batches of decodes: as deep as most are under load, at the beginning, and at the end of the chain as many as it is
  // possible for.
  Status decodes() {
    const uint32_t depth = std::min(kDecodeDepth, probe_.depth());
    if (Status status = spread(rows_at(depth), depth); !status.ok()) return status;
    if (Status status = add_batches(depth, rows_spread_); !status.ok()) return status;
    if (depth > 0) {
      if (Status status = add_batches(0, options_.decode_rows_max); !status.ok()) return status;
    }
    if (probe_.depth() <= kDecodeDepth || !has_time(kDecodesPart, 0)) return {};
    if (Status status = spread(rows_at(probe_.depth()), probe_.depth()); !status.ok()) return status;
    if (Status status = add_batches(probe_.depth(), rows_spread_); !status.ok()) return status;
    return spread(rows_at(depth), depth);
  }
  Status add_batches(uint32_t position, uint32_t rows_max) {
    for (uint32_t count = 1; count <= rows_max; count *= 2) {
      if (Status status = add_decodes(count, position); !status.ok()) return status;
    }
    return {};
  }
  // How many decodes may each have so many positions of its own to read.
  uint32_t rows_at(uint32_t positions) const {
    const uint32_t most = std::max(kSpreadPositionsMax / std::max(positions, 1U), 1U);
    return std::min({most, options_.decode_rows_max, probe_.spread_rows_max(positions)});
  }
  Status spread(uint32_t rows, uint32_t positions) {
    rows_spread_ = rows;
    return probe_.spread(rows, positions);
  }
  // Unless they do not fit, or there is no time. One kind there is in any case: all that is told of decodes would be a
  // guess else.
  Status add_decodes(uint32_t count, uint32_t position) {
    Kind kind{.rows = std::vector<ProbeRow>(count, {.position = position, .tokens = 1, .decodes = true}),
              .shape = {},
              .durations = {}};
    const TimeNs expected_ns = decodes_.empty() ? 0 : decodes_.back().durations.front();
    if (!probe_.fits(kind.rows) || (!decodes_.empty() && !has_time(kDecodesPart, expected_ns))) return {};
    for (int i = 0; i < kFirstDecodeRun && (i == 0 || may_repeat(kind, kind, kDecodesPart)); ++i) {
      if (Status status = run_once(kind); !status.ok()) return status;
    }
    decodes_.push_back(std::move(kind));
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

  // All again, as long as there is time: a machine's noise comes in spells. Short and long chunks in turns: beside
  // decodes hardly a chunk is like the one before, and a short one behind a long one finds the caches full of other
  // things.
  Status repeat() {
    for (const Kind& kind : chunks_) {
      repeated_.push_back({.rows = beside_decodes(kind.rows)});
    }
    for (int i = 1; i < kCalibrationRepeats; ++i) {
      for (size_t low = 0, high = chunks_.size(); low < high;) {
        for (const size_t k : {low++, low < high ? --high : chunks_.size()}) {
          if (k == chunks_.size() || !may_repeat(repeated_[k], chunks_[k], 1)) continue;
          if (Status status = run_once(repeated_[k]); !status.ok()) return status;
        }
      }
      for (Kind& kind : decodes_) {
        if (kind.rows.front().position > kDecodeDepth) continue;
        const int run = kind.rows.size() < kLargeDecodes ? kDecodeRun : kLargeDecodeRun;
        for (int k = 0; k < run && may_repeat(kind, kind, 1); ++k) {
          if (Status status = run_once(kind); !status.ok()) return status;
        }
      }
    }
    return {};
  }

  // The median of each kind, which a single slow step does not move; then all longer by what steps took on average
  // beyond their kind's: throughput is a matter of the mean, and most of a machine's noise makes steps longer.
  void take_samples() {
    std::vector<const Kind*> kinds;
    for (const Kind& kind : decodes_) kinds.push_back(&kind);
    for (size_t k = 0; k < chunks_.size(); ++k) {
      kinds.push_back(repeated_[k].durations.empty() ? &chunks_[k] : &repeated_[k]);
    }
    double sum = 0;
    double count = 0;
    for (const Kind* kind : kinds) {
      const TimeNs middle = median(kind->durations);
      samples_.push_back({kind->shape, middle});
      for (const TimeNs duration : kind->durations) {
        sum += std::min(static_cast<double>(duration) / static_cast<double>(std::max<TimeNs>(middle, 1)), kSlownessMax);
      }
      count += static_cast<double>(kind->durations.size());
    }
    const double slowness = count > 0 ? sum / count : 1;
    for (CostSample& sample : samples_) {
      sample.duration_ns = static_cast<TimeNs>(static_cast<double>(sample.duration_ns) * slowness);
    }
  }

  Backend& backend_;
  Clock& clock_;
  const CalibrationOptions options_;
  StepProbe probe_;
  const TimeNs began_;
  uint32_t rows_spread_ = 1;    // of the probe
  std::vector<Kind> chunks_;    // alone
  std::vector<Kind> repeated_;  // each of them as load has it; never run where there was no time
  std::vector<Kind> decodes_;
  std::vector<CostSample> samples_;  // that the costs are fitted to
};

}  // namespace

Result<Calibration> calibrate(Backend& backend, Clock& clock, const CalibrationOptions& options) {
  return Calibrator(backend, clock, options).run();
}

}  // namespace twostroke
