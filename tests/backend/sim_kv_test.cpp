#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/sim/fake_kv.h"
#include "tests/backend/sim_steps.h"

namespace twostroke {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FakeKvTest : public testing::Test {
 protected:
  // Runs the step and returns the value behind its first row.
  uint64_t run(TestStep& step) {
    std::vector<uint64_t> values;
    kv_.execute(step.plan(), faults_, values);
    return values.at(0);
  }
  uint64_t compute(std::vector<TokenId> tokens, uint32_t position, std::vector<BlockId> blocks, bool samples = true) {
    TestStep step(++step_);
    step.add(std::move(tokens), position, std::move(blocks), samples ? &sampling_ : nullptr);
    return run(step);
  }

  FakeKv kv_{8, 4};  // 8 blocks of 4 positions
  FaultLog faults_{KvCheck::kRecord};
  SamplingParams sampling_;
  uint64_t step_ = 0;
};

TEST_F(FakeKvTest, AValueDependsOnAllTokensAndTheirOrder) {
  EXPECT_EQ(compute({1, 2, 3, 4, 5}, 0, {0, 1}), FakeKv::chain_value(std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_NE(compute({2, 1, 3, 4, 5}, 0, {2, 3}), FakeKv::chain_value(std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(compute({1, 2, 3, 4, 5, 6}, 5, {0, 1}), FakeKv::chain_value(std::vector<TokenId>{1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(faults_.messages(), IsEmpty());
}

TEST_F(FakeKvTest, SequencesShareAPrefixWithoutFault) {
  compute({1, 2, 3, 4, 5}, 0, {0, 1});
  compute({1, 2, 3, 4, 9, 9}, 4, {0, 5});
  EXPECT_THAT(faults_.messages(), IsEmpty());
}

TEST_F(FakeKvTest, ReportsAPositionThatWasNeverWritten) {
  compute({1, 2, 3}, 0, {0});
  compute({1, 2, 3, 4, 5, 6}, 5, {0, 1});
  EXPECT_THAT(faults_.messages(),
              ElementsAre("step 2, row 0 (sequence 1): position 3 (block 0, offset 3) was never written"));
}

TEST_F(FakeKvTest, ReportsAStrangersBlock) {
  compute({1, 2, 3, 4}, 0, {0});
  compute({1, 2, 7, 4}, 0, {1});
  compute({1, 2, 3, 4, 5}, 4, {1, 2});
  EXPECT_THAT(faults_.messages(), ElementsAre(HasSubstr("position 2 (block 1, offset 2) was written for another")));
}

TEST_F(FakeKvTest, ReportsAChainThatDoesNotFitTogetherWithoutAHistory) {
  compute({1, 2, 3, 4}, 0, {0});
  compute({9, 2, 3, 4, 5, 6, 7, 8}, 0, {1, 2});
  compute({1, 2, 3, 4, 5, 6, 7, 8, 9}, 8, {0, 2, 3}, false);
  EXPECT_THAT(faults_.messages(), ElementsAre(HasSubstr("position 4 (block 2, offset 0) was written for another")));
}

TEST_F(FakeKvTest, ReportsTwoRowsThatWriteOneSlot) {
  TestStep step(1);
  step.add({1, 2}, 0, {0}, &sampling_);
  step.add({1, 2}, 0, {0}, &sampling_);
  run(step);
  EXPECT_THAT(faults_.messages(), ElementsAre(HasSubstr("row 1 (sequence 2): writes where another row")));
}

TEST_F(FakeKvTest, ReportsARowThatReadsWhatTheSameStepWrites) {
  for (const bool writer_first : {true, false}) {
    faults_ = FaultLog(KvCheck::kRecord);
    compute({1, 2, 3}, 0, {0});
    TestStep step(++step_);
    if (writer_first) step.add({1, 2, 3}, 2, {0}, &sampling_);
    step.add({1, 2, 3, 4}, 3, {0}, &sampling_);
    if (!writer_first) step.add({1, 2, 3}, 2, {0}, &sampling_);
    run(step);
    EXPECT_THAT(faults_.messages(), ElementsAre(HasSubstr("is written by a row of the same step")));
  }
}

TEST_F(FakeKvTest, CopiesAreDoneInOrderBeforeAnyRow) {
  compute({1, 2, 3}, 0, {0});
  TestStep step(++step_);
  step.plan().copies = {{0, 1}, {1, 2}};
  step.add({1, 2, 3, 7}, 3, {0}, &sampling_);
  step.add({1, 2, 3, 8}, 3, {2}, &sampling_);
  std::vector<uint64_t> values;
  kv_.execute(step.plan(), faults_, values);
  EXPECT_THAT(values, ElementsAre(FakeKv::chain_value(std::vector<TokenId>{1, 2, 3, 7}),
                                  FakeKv::chain_value(std::vector<TokenId>{1, 2, 3, 8})));
  EXPECT_THAT(faults_.messages(), IsEmpty());
}

TEST_F(FakeKvTest, ALostStepSpoilsItsRowsAndTheTargetsOfItsCopies) {
  compute({1, 2, 3}, 0, {0});
  TestStep lost(++step_);
  lost.plan().copies = {{0, 1}};
  lost.add({1, 2, 3, 4}, 3, {0}, &sampling_);
  kv_.spoil(lost.plan());
  compute({1, 2, 3, 4}, 3, {1});
  EXPECT_THAT(faults_.messages(), ElementsAre(HasSubstr("position 0 (block 1, offset 0) holds what a lost step")));
  compute({1, 2, 3, 4, 5}, 4, {0, 5});
  EXPECT_THAT(faults_.messages().back(), HasSubstr("position 3 (block 0, offset 3) holds what a lost step"));
}

TEST_F(FakeKvTest, KeepsTheFirstFaultsAndCountsAll) {
  for (uint32_t i = 0; i < FaultLog::kKeptMax + 10; ++i) compute({1, 2}, 1, {7});
  EXPECT_EQ(faults_.messages().size(), FaultLog::kKeptMax);
  EXPECT_EQ(faults_.count(), FaultLog::kKeptMax + 10);
}

TEST_F(FakeKvTest, LooksAtNothingButTheLastPositionWhenChecksAreOff) {
  faults_ = FaultLog(KvCheck::kOff);
  compute({1, 2}, 1, {7});
  EXPECT_THAT(faults_.messages(), IsEmpty());
}

TEST(FakeKvDeathTest, TheFirstFaultAbortsWhenAsked) {
  FakeKv kv(1, 4);
  FaultLog faults(KvCheck::kAbort);
  const SamplingParams sampling;
  TestStep step(1);
  step.add({1, 2}, 1, {0}, &sampling);
  std::vector<uint64_t> values;
  EXPECT_DEATH(kv.execute(step.plan(), faults, values), "was never written");
}

}  // namespace
}  // namespace twostroke
