#include "server/simulate/max_rate.h"

#include <gtest/gtest.h>

#include "server/simulate/report.h"
#include "tests/server/simulate/simulated.h"

namespace twostroke::simulate {
namespace {

// Meets its targets up to `limit`.
RateTrial up_to(double limit, std::vector<double>& tried) {
  return [limit, &tried](double rate) -> Result<SimulationResult> {
    tried.push_back(rate);
    SimulationResult result;
    result.offered = 1000;
    result.good = rate <= limit ? 990 : 989;
    return result;
  };
}

TEST(MaxRate, IsFoundFromAboveAndFromBelow) {
  for (const double start : {0.01, 1.0, 700.0}) {
    std::vector<double> tried;
    const Result<MaxRate> found = find_max_rate({.start = start}, up_to(13.7, tried));
    ASSERT_TRUE(found.ok());
    EXPECT_LE(found->rate, 13.7);
    EXPECT_GT(found->rate, 13.7 / 1.02);
    EXPECT_EQ(found->tries, tried.size());
    EXPECT_LT(tried.size(), 30u);
    EXPECT_EQ(found->result.good, 990u);
    EXPECT_GT(found->failed_rate, 13.7);
    EXPECT_LE(found->failed_rate, found->rate * 1.02);
    EXPECT_EQ(found->failed.good, 989u);
  }
}

TEST(MaxRate, IsZeroWhereNoRateMeetsTheTargets) {
  std::vector<double> tried;
  const Result<MaxRate> found = find_max_rate({}, up_to(0, tried));
  EXPECT_EQ(found->rate, 0);
  EXPECT_EQ(found->failed_rate, tried.back());
}

TEST(MaxRate, HasNoEndWhereEveryRateMeetsThem) {
  std::vector<double> tried;
  EXPECT_EQ(find_max_rate({}, up_to(1e9, tried)).status().code(), StatusCode::kUnsupported);
}

TEST(MaxRate, ATrialThatFailsIsTheAnswer) {
  const Result<MaxRate> found =
      find_max_rate({}, [](double) -> Result<SimulationResult> { return invalid_argument("damaged"); });
  EXPECT_EQ(found.status().message(), "damaged");
}

Hardware device(const char* name, double tflops, double gb_per_s, double memory_gb) {
  Hardware hardware;
  hardware.name = name;
  hardware.peak_flops = tflops * 1e12;
  hardware.peak_bytes_per_second = gb_per_s * 1e9;
  hardware.memory_bytes = memory_gb * 1e9;
  return hardware;
}

// The buyer's question: four machines of high compute and modest bandwidth, or two of modest compute and high
// bandwidth?
struct Offer {
  double rate = 0;
  std::string binds;
};

Offer ask(const Hardware& hardware, uint32_t count, const char* kind, Targets targets) {
  Simulated simulated("H100", "Llama-2-7B");
  simulated.fleet.groups[0].hardware = hardware;
  simulated.fleet.groups[0].replicas = count;
  simulated.options.targets = targets;
  simulated.options.misses_max = 10;
  const Result<MaxRate> found = find_max_rate({.tolerance = 0.05}, [&](double rate) -> Result<SimulationResult> {
    SyntheticOptions options = mixed_requests(rate, 1000);
    options.kinds = {*parse_kind(kind)};
    return simulated.run(*make_synthetic(options));
  });
  EXPECT_TRUE(found.ok()) << found.status().message();
  return {found->rate, binding_of(found->result.groups[0]).resource};
}

TEST(BuyersQuestion, LongDocumentsWithShortAnswersNeedCompute) {
  const Targets targets{.ttft_ms = 4000, .tpot_ms = 200};
  const Offer compute = ask(device("compute", 400, 600, 48), 4, "1/3000/20", targets);
  const Offer bandwidth = ask(device("bandwidth", 300, 3000, 96), 2, "1/3000/20", targets);
  // 1,600 against 600 TFLOP/s.
  EXPECT_NEAR(compute.rate / bandwidth.rate, 1600.0 / 600, 0.4);
  EXPECT_EQ(compute.binds, "arithmetic");
  EXPECT_EQ(bandwidth.binds, "arithmetic");
}

TEST(BuyersQuestion, ShortPromptsWithLongAnswersNeedBandwidth) {
  const Targets targets{.ttft_ms = 1000, .tpot_ms = 40};
  const Offer compute = ask(device("compute", 400, 600, 48), 4, "1/50/400", targets);
  const Offer bandwidth = ask(device("bandwidth", 300, 3000, 96), 2, "1/50/400", targets);
  // 6,000 against 2,400 GB/s, and the weights, read by every step, leave the four less than their share of it.
  EXPECT_GT(bandwidth.rate / compute.rate, 2.0);
  EXPECT_EQ(compute.binds, "memory bandwidth");
  EXPECT_EQ(bandwidth.binds, "memory bandwidth");
}

}  // namespace
}  // namespace twostroke::simulate
