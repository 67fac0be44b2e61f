#include "server/simulate/comparison.h"

#include <gtest/gtest.h>

#include "tests/server/simulate/simulated.h"

namespace twostroke::simulate {
namespace {

// 100 requests in 50 s, all good; the last answer comes `tail` seconds later.
SimulationResult run_with_tail(double tail, double lone_tail) {
  SimulationResult result;
  result.offered = result.finished = result.good = 100;
  result.output_tokens = 1000;
  result.arrival_seconds = 50;
  result.seconds = 50 + tail;
  result.lone_seconds = 50 + lone_tail;
  return result;
}

TEST(Load, FollowsFromTheTailBesideThatOfLoneRequests) {
  EXPECT_EQ(load_of(run_with_tail(10, 8)), Load::kKeepsUp);
  EXPECT_EQ(load_of(run_with_tail(15.9, 8)), Load::kKeepsUp);
  EXPECT_EQ(load_of(run_with_tail(16.1, 8)), Load::kFallsBehind);
  EXPECT_EQ(load_of(run_with_tail(2.5, 0.1)), Load::kKeepsUp) << "little beside the run";
  EXPECT_EQ(load_of(run_with_tail(2.7, 0.1)), Load::kFallsBehind);
  EXPECT_EQ(load_of(run_with_tail(51, 49)), Load::kTooShort);
  EXPECT_EQ(load_of(run_with_tail(51, 20)), Load::kFallsBehind);
  EXPECT_EQ(load_of(SimulationResult()), Load::kFallsBehind) << "nothing finished";
}

TEST(Load, AFullQueueIsBehindHoweverShortItsTail) {
  SimulationResult result = run_with_tail(1, 1);
  result.refused = 2;
  result.finished = result.good = 98;
  EXPECT_EQ(load_of(result), Load::kFallsBehind);
  result.refused = 1;
  EXPECT_EQ(load_of(result), Load::kKeepsUp);
}

TEST(Load, RequestsThatAreAllTooLongTellNothing) {
  SimulationResult result;
  result.offered = result.too_long = 20;
  EXPECT_EQ(load_of(result), Load::kNoneFits);
  result.too_long = 19;
  EXPECT_EQ(load_of(result), Load::kFallsBehind);
  result.too_long = 20;
  result.stopped = true;
  EXPECT_EQ(load_of(result), Load::kFallsBehind) << "others may follow";
}

TEST(Load, RatesAreOverTheTimeOfArrivalsWhereTheFleetKeepsUp) {
  EXPECT_EQ(span_seconds(run_with_tail(10, 8)), 50);
  EXPECT_EQ(span_seconds(run_with_tail(30, 8)), 80);
  EXPECT_EQ(span_seconds(run_with_tail(60, 50)), 110);
}

TEST(Load, ALoneRequestTakesWhatItWouldAlone) {
  for (const char* fleet : {"H100", "2xL4", "4xL40S:tp4", "prefill=H100,decode=A100-80GB"}) {
    Simulated simulated(fleet);
    for (const uint32_t prompt : {1u, 700u, 9001u}) {
      for (const uint32_t output : {1u, 2u, 600u}) {
        const SimulationResult result =
            simulated.run({{.time = kMillisecondNs, .prompt_tokens = prompt, .output_tokens = output}});
        EXPECT_NEAR(lone_tail_seconds(result) / tail_seconds(result), 1, 0.02)
            << fleet << " " << prompt << " " << output;
      }
    }
  }
}

Report report_of(std::vector<SimulationResult> results) {
  Report report;
  report.good_share_min = 0.99;
  for (SimulationResult& result : results) {
    FleetReport& fleet = report.fleets.emplace_back();
    fleet.result = std::move(result);
    fleet.fleet.groups.emplace_back();
  }
  return report;
}

SimulationResult good(SimulationResult result, uint64_t good) {
  result.good = good;
  return result;
}

TEST(Comparison, TheOnlyOneThatKeepsUpIsTheBest) {
  const Comparison behind = compare(report_of({run_with_tail(50, 8), run_with_tail(10, 8)}));
  EXPECT_EQ(behind.best, 1u);
  EXPECT_DOUBLE_EQ(behind.times_the_next, 2);
  // One that keeps up, but answers too few well.
  const Comparison late = compare(report_of({good(run_with_tail(10, 8), 98), run_with_tail(10, 8)}));
  EXPECT_EQ(late.best, 1u);
  EXPECT_NEAR(late.times_the_next, 100 / 98.0, 1e-9);
}

TEST(Comparison, SeveralThatKeepUpDoTheSame) {
  const Comparison comparison = compare(
      report_of({run_with_tail(10, 8), good(run_with_tail(1, 1), 99), run_with_tail(50, 8), run_with_tail(3, 2)}));
  EXPECT_EQ(comparison.best, std::nullopt);
  EXPECT_TRUE(comparison.keep_up);
  EXPECT_EQ(comparison.equals, (std::vector<size_t>{0, 1, 3}));
}

TEST(Comparison, WhereNoneKeepsUpNoiseIsNoDifference) {
  EXPECT_EQ(compare(report_of({run_with_tail(50, 8), run_with_tail(40, 8)})).best, 1u);
  const Comparison noise = compare(report_of({run_with_tail(50, 8), run_with_tail(49.5, 8), run_with_tail(90, 8)}));
  EXPECT_EQ(noise.best, std::nullopt);
  EXPECT_FALSE(noise.keep_up);
  EXPECT_EQ(noise.equals, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(noise.within, kEqualWithin);
  EXPECT_EQ(compare(report_of({good(run_with_tail(9, 8), 0), good(run_with_tail(9, 8), 0)})).equals.size(), 0u);
}

TEST(Comparison, TheCheapestNeedsThePricesOfAllThatKeepUpAndADifference) {
  Report report = report_of({run_with_tail(10, 8), run_with_tail(1, 1), run_with_tail(50, 8)});
  const auto price = [&report](size_t fleet, double per_hour) {
    report.fleets[fleet].fleet.groups.front().hardware.price_per_hour = per_hour;
  };
  EXPECT_EQ(compare(report).cheapest, std::nullopt);
  EXPECT_TRUE(compare(report).unpriced.empty()) << "nobody asks for prices";
  price(0, 3.6);
  EXPECT_EQ(compare(report).cheapest, std::nullopt);
  EXPECT_EQ(compare(report).unpriced, std::vector<size_t>{1});
  price(1, 7.2);
  EXPECT_EQ(compare(report).cheapest, 0u);
  EXPECT_TRUE(compare(report).unpriced.empty()) << "one that falls behind needs none";
  EXPECT_DOUBLE_EQ(compare(report).next_price, 7.2 / 3600 * 50 / 1000 * 1e6);
  price(2, 0.1);
  EXPECT_EQ(compare(report).cheapest, 0u) << "what falls behind is not cheap";
  price(1, 3.61);
  EXPECT_EQ(compare(report).cheapest, std::nullopt);
}

TEST(Comparison, AFleetWithoutAGoodAnswerHasNoPriceForTokens) {
  Report report = report_of({run_with_tail(10, 8)});
  FleetReport& fleet = report.fleets.front();
  fleet.fleet.groups.front().hardware.price_per_hour = 3.6;
  EXPECT_TRUE(token_price(fleet));
  fleet.result.good = 0;
  EXPECT_FALSE(token_price(fleet));
}

}  // namespace
}  // namespace twostroke::simulate
