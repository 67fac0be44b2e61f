#include "scheduler/cost/error_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace twostroke::test {
namespace {

TEST(ErrorWindow, KnowsWhatAPartOfTheLastErrorsStayedBelow) {
  ErrorWindow<64> window;
  EXPECT_EQ(window.quantile(0.5), 0);
  window.add(-0.25);
  EXPECT_EQ(window.quantile(0), -0.25);
  EXPECT_EQ(window.quantile(1), -0.25);

  std::mt19937_64 random(5);
  std::uniform_int_distribution<int> draw(-8, 8);  // few values, so that many are equal
  std::vector<double> all = {-0.25};
  for (int i = 0; i < 500; ++i) {
    all.push_back(draw(random) / 8.0);
    window.add(all.back());
    std::vector<double> last(all.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(all.size(), 64)), all.end());
    std::ranges::sort(last);
    for (const double part : {0.0, 0.3, 0.5, 0.95}) {
      ASSERT_EQ(window.quantile(part), last[static_cast<size_t>(part * static_cast<double>(last.size()))]) << i;
    }
    ASSERT_EQ(window.quantile(1), last.back());
  }
}

TEST(ErrorWindow, BoundsWhatIsBeyondMeasure) {
  ErrorWindow<64> window;
  window.add(1e300);
  EXPECT_TRUE(std::isfinite(window.quantile(0.5)));
}

}  // namespace
}  // namespace twostroke::test
