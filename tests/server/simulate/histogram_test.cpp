#include "server/simulate/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "server/simulate/random.h"

namespace twostroke::simulate {
namespace {

TEST(Histogram, QuantilesAreThoseOfTheSortedValues) {
  for (const double median : {50.0, 1e6, 1e12}) {
    Histogram histogram;
    Random random(7);
    std::vector<TimeNs> values;
    for (int i = 0; i < 10'000; ++i) values.push_back(static_cast<TimeNs>(median * std::exp(2 * random.normal())));
    double sum = 0;
    for (const TimeNs value : values) histogram.add(value), sum += static_cast<double>(value);
    std::ranges::sort(values);
    for (const double q : {0.0001, 0.1, 0.5, 0.9, 0.99, 1.0}) {
      const auto exact = static_cast<double>(values[static_cast<size_t>(std::ceil(q * 10'000)) - 1]) * 1e-9;
      EXPECT_NEAR(histogram.quantile_seconds(q), exact, exact * 0.004) << median << " " << q;
    }
    EXPECT_NEAR(histogram.mean_seconds(), sum / 10'000 * 1e-9, 1e-9 * sum / 10'000 * 1e-9);
    EXPECT_EQ(histogram.max_seconds(), to_seconds(values.back()));
  }
}

TEST(Histogram, TakesEveryDurationThereIs) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile_seconds(0.5), 0);
  for (const TimeNs value : {TimeNs{0}, TimeNs{127}, TimeNs{128}, TimeNs{255}, TimeNs{256}, INT64_MAX})
    histogram.add(value);
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_NEAR(histogram.quantile_seconds(1), to_seconds(INT64_MAX), to_seconds(INT64_MAX) * 0.004);
  EXPECT_EQ(histogram.max_seconds(), to_seconds(INT64_MAX));
  EXPECT_EQ(histogram.quantile_seconds(0), 0);
}

}  // namespace
}  // namespace twostroke::simulate
