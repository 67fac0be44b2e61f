#include "scheduler/calibration.h"

#include <algorithm>

#include "scheduler/step_probe.h"

namespace twostroke {
namespace {

constexpr double kChunksPart = 0.55;  // of the time, for the chunks; they are what takes long
constexpr double kKindPart = 0.06;    // for running one kind again
constexpr double kDepthPart = 0.7;    // likewise until depth is reached
constexpr uint32_t kDepthMin = 256;   // worth measuring at
constexpr uint32_t kDepthMax = 4096;  // enough to see what context costs
constexpr uint32_t kDeepChunk = 64;
constexpr TimeNs kMeasurableNs = 1'000;  // a step that takes less takes no time

class Calibrator {
 public:
  Calibrator(Backend& backend, Clock& clock, const CalibrationOptions& options)
      : backend_(backend), clock_(clock), options_(options), probe_(backend, clock), began_(clock.now()) {}

  Result<Calibration> run() {
    // The first step finds cold caches, and memory that nobody has touched.
    if (Status status = warm_up(); !status.ok()) return status;
    if (Status status = chunks(); !status.ok()) return status;
    if (Status status = deepen(); !status.ok()) return status;
    if (Status status = at_depth(); !status.ok()) return status;
    Calibration calibration;
    calibration.duration_ns = clock_.now() - began_;
    if (std::ranges::all_of(samples_, [](const CostSample& s) { return s.duration_ns < kMeasurableNs; })) {
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

  // The median of a few, as far as there is time for `part` of it all, and no kind takes too much of it.
  Status measure(const std::vector<ProbeRow>& rows, double part) {
    std::vector<CostSample> samples;
    const TimeNs first = clock_now();
    const auto kind_max = static_cast<TimeNs>(kKindPart * static_cast<double>(options_.time_max_ns));
    const auto goes_on = [&] {
      const TimeNs last_ns = samples.back().duration_ns;
      return clock_now() - first + last_ns < kind_max && has_time(part, 2 * last_ns);
    };
    for (int i = 0; i < kCalibrationRepeats && (i == 0 || goes_on()); ++i) {
      Result<CostSample> sample = probe_.run(rows);
      if (!sample.ok()) return sample.status();
      samples.push_back(*sample);
    }
    // Of two the faster: the first of a kind finds caches without it.
    const auto median = samples.begin() + static_cast<int64_t>(samples.size() - 1) / 2;
    std::ranges::nth_element(samples, median, {}, &CostSample::duration_ns);
    samples_.push_back(*median);
    return {};
  }

  // Each knot; sizes double where a step takes long, so that large ones are reached.
  Status chunks() {
    TimeNs last_ns = 0;
    uint32_t last_tokens = 1;
    for (const uint32_t tokens : kCostKnots) {
      const bool fine = tokens <= 16 || (tokens & (tokens - 1)) == 0;
      const TimeNs expected_ns = last_ns * tokens / last_tokens;
      if (!fine && expected_ns * 20 > options_.time_max_ns) continue;
      if (!has_time(kChunksPart, expected_ns)) return {};
      const std::vector<ProbeRow> rows = {{.tokens = tokens, .decodes = false}};
      if (!probe_.fits(rows)) return {};
      if (Status status = measure(rows, kChunksPart); !status.ok()) return status;
      last_ns = samples_.back().duration_ns;
      last_tokens = tokens;
    }
    return {};
  }

  // The largest step that is known to be cheap enough, again and again.
  Status deepen() {
    const auto step = static_cast<uint32_t>(backend_.info().step_tokens_max);
    const uint32_t chunk = std::min({step, samples_.back().shape.tokens(), 512U});
    const TimeNs chunk_ns = samples_.back().duration_ns;
    while (probe_.depth() + chunk <= std::min(probe_.depth_max(), kDepthMax)) {
      if (probe_.depth() >= kDepthMin && !has_time(kDepthPart, chunk_ns)) return {};
      if (!has_time(1, chunk_ns)) return {};
      const Result<CostSample> sample = probe_.extend(chunk);
      if (!sample.ok()) return sample.status();
      if (probe_.depth() > chunk) samples_.push_back(*sample);
    }
    return {};
  }

  Status at_depth() {
    const uint32_t depth = probe_.depth();
    for (uint32_t count = 1; count <= options_.decode_rows_max; count *= 2) {
      for (const uint32_t position : {0U, depth}) {
        std::vector<ProbeRow> rows(count, ProbeRow{.position = position, .tokens = 1, .decodes = true});
        if (!probe_.fits(rows) || (count > 1 && !has_time(1, samples_.back().duration_ns))) continue;
        if (Status status = measure(rows, 1); !status.ok()) return status;
      }
    }
    const std::vector<ProbeRow> deep = {{.position = depth, .tokens = kDeepChunk, .decodes = false}};
    return probe_.fits(deep) && has_time(1, samples_.back().duration_ns) ? measure(deep, 1) : Status();
  }

  Backend& backend_;
  Clock& clock_;
  const CalibrationOptions options_;
  StepProbe probe_;
  const TimeNs began_;
  std::vector<CostSample> samples_;
};

}  // namespace

Result<Calibration> calibrate(Backend& backend, Clock& clock, const CalibrationOptions& options) {
  return Calibrator(backend, clock, options).run();
}

}  // namespace twostroke
