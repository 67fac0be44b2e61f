// CostModel: how long a step takes, predicted from its shape, learned from the steps that ran.
//
//     time = f(tokens) + logit_ns * logit tokens
//          + prefill_position_ns * positions attended in prefill + decode_position_ns * positions attended in decode
//
// f is the time of a step by its tokens alone, prefill and decode together: piecewise linear between kCostKnots, never
// falling. It holds the fixed cost of a step, the weights that every step reads once, and the arithmetic of each token.
// On a GPU it is flat up to the machine's ridge (Williams, Waterman, Patterson: Roofline, CACM 2009) and rises from
// there; on a CPU it rises from the start. No coefficient is negative, so the prediction is monotone in everything.
//
// Learning. An extended Kalman filter over the coefficients' logarithms (so that none is ever negative), a random walk
// driven by the relative error e = 2 (measured - predicted) / (measured + predicted), which is near the logarithm of
// their ratio:
//   - The walk has a part common to all coefficients, because what changes is mostly the machine's speed as a whole,
//     and a smaller one of each coefficient's own, which knots share the more the nearer they are. A change of speed is
//     followed within about fifteen steps; shapes that were long not seen follow in part.
//   - e is clipped at kClipErrors times the running median error (Huber), so that a single slow step hardly counts.
//     Four in a row beyond the clip on the same side are no outliers but a change: then the filter opens up.
//   - A coefficient's uncertainty stops growing at a bound, so that nothing blows up where a shape is never seen.
//   - No logarithms or exponentials are computed: a step of e multiplies by (2 + e) / (2 - e), which is exact when all
//     of an error is believed. So every machine gets the same numbers from the same steps.
//
// What it does not know: that attention and weights overlap (their times are added), and that rows differ in what they
// cost. It forgets, so its coefficients are those of the recent load.
//
// Cost: about a microsecond to learn, tens of nanoseconds to predict; nothing allocates. Deterministic: the same calls
// give the same numbers. Thread-safety: one thread; const methods from several while nobody learns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "scheduler/cost/error_window.h"
#include "scheduler/cost/step_shape.h"
#include "scheduler/time.h"

namespace twostroke {

constexpr std::array<uint32_t, 20> kCostKnots = {1,   2,   4,   8,   16,  32,   48,   64,   96,   128,
                                                 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192};
constexpr size_t kCostKnotCount = kCostKnots.size();

// A model's numbers, in nanoseconds; plain data, to be kept in a file or a journal.
struct CostCoefficients {
  std::array<double, kCostKnotCount> token_ns{};  // f at kCostKnots; beyond the last it goes on as in the last segment
  double logit_ns = 0;
  double prefill_position_ns = 0;
  double decode_position_ns = 0;

  // Finite, not negative, f above 0 and never falling.
  bool valid() const;
  friend bool operator==(const CostCoefficients&, const CostCoefficients&) = default;
};

// The formula above; 0 for a step without tokens.
double predict_ns(const CostCoefficients& coefficients, const StepShape& shape);

// A first guess for a machine that nothing is known of, from what the backend says of the model: the roofline of a
// machine with its peaks, or kGuessedFlops and kGuessedBytesPerSecond. Its scale is wrong at first; learning mends that
// with the first steps. Also for a backend that knows nothing of its model.
constexpr double kGuessedFlops = 4e12;
constexpr double kGuessedBytesPerSecond = 1e11;
CostCoefficients guess_costs(const BackendInfo& info);

// Whose time a step was: adds up to the whole exactly.
struct CostShares {
  TimeNs prefill_ns = 0;
  TimeNs decode_ns = 0;
};

class CostModel {
 public:
  // How far the coefficients that it begins with may be wrong.
  enum class Prior : uint8_t {
    kGuess,       // in scale by any factor: the first steps set it
    kCalibrated,  // by some ten percent
  };
  // Requires valid coefficients.
  CostModel(const CostCoefficients& coefficients, Prior prior);

  double predict_ns(const StepShape& shape) const { return twostroke::predict_ns(coefficients_, shape); }
  // What it takes when nothing else uses the machine: as calibrated, where that is less.
  double predict_undisturbed_ns(const StepShape& shape) const {
    const double now = predict_ns(shape);
    return calibrated_ ? std::min(now, twostroke::predict_ns(calibration_, shape)) : now;
  }

  double undisturbed_position_ns() const {  // likewise, of a position in prefill
    return calibrated_ ? std::min(coefficients_.prefill_position_ns, calibration_.prefill_position_ns)
                       : coefficients_.prefill_position_ns;
  }

  // A step of this shape took so long. Steps without tokens and durations that are not positive (a simulation without
  // pace) teach nothing.
  void learn(const StepShape& shape, TimeNs duration_ns);

  const CostCoefficients& coefficients() const { return coefficients_; }
  uint64_t steps_learned() const { return steps_learned_; }
  // Whether its times are those of this machine: it was calibrated, or has learned a few steps.
  bool knows_scale() const;
  // |predicted - measured| / measured of the last kErrorWindow steps, each predicted before it was learned: the median.
  // 0 before the first.
  double error_ratio() const { return errors_.quantile(0.5); }
  // By how much a mixed step took longer than predicted, in ns: what this part of the last kOverrunWindow of them
  // stayed below. May be negative. 0 before the first. In time and not as a part of the step, because what the model
  // does not foresee is mostly a processor taken away for some milliseconds, whatever the step's length. Other steps do
  // not count: nobody waits for those without decodes, and those without prefill have time to spare.
  double overrun_ns(double quantile) const { return overruns_.quantile(quantile); }

  // How many tokens a step can carry before it costs noticeably more, by kRidgeFraction, than `decodes` alone (their
  // part of the shape; without any: than a single token). Counts the decodes. From 1 to tokens_max, but at least the
  // decodes.
  //
  // A seventh: less than steps differ from one another by themselves on most machines, so nobody notices; and on a
  // machine with a ridge, where f turns from flat to rising, any small fraction gives about the same.
  static constexpr double kRidgeFraction = 0.15;
  uint32_t ridge_tokens(const StepShape& decodes, uint32_t tokens_max) const;

  // The smallest step, in tokens, whose tokens per second come within kWorthwhileThroughput of a step of tokens_max.
  // Where every token costs (a CPU, or a GPU whose decodes are beyond the ridge already) the ridge says little; larger
  // steps are still better, because each has a fixed cost, but ever less so: this is the size from which on they only
  // make everybody wait longer.
  //
  // By the costs as they were calibrated, where they were: what is worthwhile is the machine's nature rather than the
  // moment's, and so an operator sees the size that the server said at its start, and the simulator uses the same.
  //
  // The smaller of two answers, each too large at times in a way of its own, but at least kWorthwhileTokensMin. By f
  // itself: where tokens per second hardly differ over a wide range of sizes, a single knot that was measured as too
  // fast decides. By a + b * tokens, the line nearest to f from the ridge and that minimum on, in relative terms: sizes
  // that were never seen count as much as others.
  static constexpr double kWorthwhileThroughput = 0.92;
  static constexpr uint32_t kWorthwhileTokensMin = 32;  // no machine is at its best below; f that says so is mistaken
  uint32_t worthwhile_tokens(uint32_t tokens_max) const;

  // Shares of a mixed step's time: what each phase adds to it, averaged over the two orders in which they can be put
  // together (the Shapley value). With t() predicted: prefill : decode =
  //     t(both) + t(prefill alone) - t(decode alone)  :  t(both) + t(decode alone) - t(prefill alone)
  // So what both need, such as the weights, is shared equally. Logits go by rows: a step's logit tokens count as
  // decode's up to its rows, the rest as prefill's. A pure step is all its phase's.
  CostShares attribute(const StepShape& shape, TimeNs duration_ns) const;

  static constexpr double kClipErrors = 4;
  static constexpr size_t kErrorWindow = 64;
  static constexpr size_t kOverrunWindow = 256;  // so that a hundredth of them is more than one

 private:
  friend struct SchedulerTestPeer;  // lets a test break an invariant on purpose
  static constexpr size_t kSize = kCostKnotCount + 3;
  using Vector = std::array<double, kSize>;

  // Which coefficients a step's time is made of, and what part of it each is.
  struct Features {
    std::array<uint32_t, 5> index{};
    std::array<double, 5> share{};
  };
  Features features(const StepShape& shape, double predicted) const;
  bool settling() const;
  double clip_for(double error);
  void walk(double common, double own);
  void update(const Features& features, double error);
  void keep_monotone(uint32_t knot);
  void publish();

  bool calibrated_;
  uint64_t steps_learned_ = 0;
  int32_t streak_ = 0;                      // steps in a row beyond the clip, negative when too fast
  Vector values_{};                         // the coefficients, in ns
  std::array<Vector, kSize> covariance_{};  // of their logarithms, in units of a step's own noise
  CostCoefficients coefficients_;           // values_, for others to read
  CostCoefficients calibration_;            // that it began with

  ErrorWindow<kErrorWindow> errors_;
  ErrorWindow<kOverrunWindow> overruns_;
};

}  // namespace twostroke
