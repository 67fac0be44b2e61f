#include "scheduler/journal/step_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twostroke {
namespace {

using testing::ElementsAre;

StepOutput output_of(uint64_t step) {
  StepOutput output;
  output.stepped = true;
  output.step = step;
  return output;
}

std::vector<uint64_t> numbers(const std::vector<StepRecord>& records) {
  std::vector<uint64_t> steps;
  for (const StepRecord& record : records) steps.push_back(record.step);
  return steps;
}

TEST(StepHistory, KeepsTheLastOnesInTheirOrder) {
  StepHistory history(3);
  EXPECT_TRUE(history.last(10).empty());
  history.add(output_of(1));
  history.add(output_of(2));
  EXPECT_THAT(numbers(history.last(10)), ElementsAre(1, 2));
  EXPECT_THAT(numbers(history.last(1)), ElementsAre(2));
  for (uint64_t step = 3; step <= 7; ++step) history.add(output_of(step));
  EXPECT_THAT(numbers(history.last(10)), ElementsAre(5, 6, 7));
  EXPECT_THAT(numbers(history.last(2)), ElementsAre(6, 7));
}

TEST(StepHistory, AnOutputWithoutAStepIsNone) {
  StepHistory history(3);
  history.add(StepOutput{});
  EXPECT_TRUE(history.last(1).empty());
}

}  // namespace
}  // namespace twostroke
