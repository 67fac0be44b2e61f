// The checks themselves: every kind of broken promise, made on purpose, is found. What keeps the random scenarios
// honest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

using ::testing::HasSubstr;
using Impl = SchedulerTestPeer::Impl;

// A scheduler with something in every state: 1 decodes, its siblings follow it, 2 is in mid-prompt, 3 and 4 wait.
class Populated : public Harness {
 public:
  explicit Populated(Order order = Order::kFcfs) : Harness(limits(order)) {
    Request first = make_request(1, make_prompt(9), 30);
    EXPECT_TRUE(submit(std::move(first)).ok());
    Request second = make_request(2, make_prompt(30, 20), 30);
    second.n = 2;
    EXPECT_TRUE(submit(std::move(second)).ok());
    EXPECT_TRUE(submit(make_request(3, make_prompt(9, 30), 30)).ok());
    EXPECT_TRUE(submit(make_request(4, make_prompt(9, 40), 30)).ok());
    step();
    step();
    EXPECT_EQ(problem, "");
  }
  Impl& impl() { return SchedulerTestPeer::impl(scheduler); }
  Sequence& sequence(RequestId request, uint32_t index = 0) {
    return *SchedulerTestPeer::sequence(scheduler, request, index);
  }

 private:
  static SchedulerLimits limits(Order order) {
    SchedulerLimits limits = small_limits();
    limits.order = order;
    limits.max_running = 2;
    limits.max_chunk_tokens = 12;
    return limits;
  }
};

struct StateMutation {
  const char* name;
  const char* found;  // in the message
  std::function<void(Populated&)> breaks;
  friend void PrintTo(const StateMutation& mutation, std::ostream* out) { *out << mutation.name; }
};

class BrokenState : public ::testing::TestWithParam<StateMutation> {};

TEST_P(BrokenState, IsFound) {
  Populated populated;
  ASSERT_EQ(populated.scheduler.check_invariants(), "");
  GetParam().breaks(populated);
  EXPECT_THAT(populated.scheduler.check_invariants(), HasSubstr(GetParam().found));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenState,
    ::testing::Values(
        StateMutation{"LeakedBlock", "no sequence holds", [](Populated& p) { p.impl().pool_.allocate(); }},
        StateMutation{"ImpossibleCosts", "coefficients that no step",
                      [](Populated& p) { SchedulerTestPeer::costs_of(p.impl().costs_).logit_ns = -1; }},
        StateMutation{"BudgetBeyondTheStep", "more than a step can carry",
                      [](Populated& p) { p.impl().budget_.prefill_tokens = 17; }},
        StateMutation{"ForecastOfOtherTokens", "do not add up to what waits",
                      [](Populated& p) { ++p.impl().waiting_levels_.begin()->second[0].tokens; }},
        StateMutation{"ForecastOfOtherBlocks", "do not add up to what waits",
                      [](Populated& p) { ++p.impl().waiting_levels_.begin()->second[0].blocks; }},
        StateMutation{"ForecastOfNobody", "waits for nobody",
                      [](Populated& p) { p.impl().waiting_levels_[77] = {}; }},
        StateMutation{"ReferenceTooMany", "references",
                      [](Populated& p) { p.impl().pool_.acquire(p.sequence(1).blocks[0]); }},
        StateMutation{"ReferenceTooFew", "0 references and 1 holders",
                      [](Populated& p) { p.impl().pool_.release(p.sequence(1).blocks.back()); }},
        StateMutation{"BlockOfAStranger", "is still being written",
                      [](Populated& p) {
                        p.impl().pool_.acquire(p.sequence(2).blocks.back());
                        p.impl().pool_.release(p.sequence(1).blocks.back());
                        p.sequence(1).blocks.back() = p.sequence(2).blocks.back();
                      }},
        StateMutation{"TableTooLong", "more or fewer blocks",
                      [](Populated& p) { p.sequence(1).blocks.push_back(p.impl().pool_.allocate()); }},
        StateMutation{"ComputedTooFar", "more or fewer blocks", [](Populated& p) { p.sequence(1).computed += 4; }},
        StateMutation{"ImportsWithoutARow", "come with no row", [](Populated& p) { p.sequence(1).imported = 2; }},
        StateMutation{"NothingLeftToCompute", "nothing left", [](Populated& p) { ++p.sequence(1).computed; }},
        StateMutation{"UnregisteredBlock", "should know", [](Populated& p) { --p.sequence(1).registered; }},
        StateMutation{"OtherTokensThanTheCacheKnows", "something else",
                      [](Populated& p) { p.sequence(2).tokens[0] = p.sequence(2).request->request.prompt[0] = 1; }},
        StateMutation{"LostPrompt", "lost its prompt", [](Populated& p) { p.sequence(1).tokens[0] = 7; }},
        StateMutation{"OtherSalt", "something else",
                      [](Populated& p) { p.sequence(1).request->request.cache_salt = 3; }},
        StateMutation{"BlocksWhileWaiting", "does not run", [](Populated& p) { p.sequence(3).computed = 1; }},
        StateMutation{"LostFromTheQueue", "the queue does not hold",
                      [](Populated& p) { p.impl().waiting_.remove(p.sequence(3)); }},
        StateMutation{"QueueOutOfOrder", "a line stands at another's place",
                      [](Populated& p) { std::swap(p.sequence(3).request->arrival, p.sequence(4).request->arrival); }},
        StateMutation{"RunningOutOfOrder", "running sequences",
                      [](Populated& p) { std::swap(p.impl().running_[0], p.impl().running_[1]); }},
        StateMutation{"RunsButIsNotListed", "running sequences", [](Populated& p) { p.impl().running_.pop_back(); }},
        StateMutation{"FollowsNobody", "follow nobody", [](Populated& p) { p.sequence(2).request->leader = 1; }},
        StateMutation{"FollowsWhatIsDone", "which is done",
                      [](Populated& p) {
                        p.sequence(2).request->prompt_done = true;
                        p.sequence(2).request->prompt_counted = 30;
                      }},
        StateMutation{"OvertakenTooOften", "overtaken", [](Populated& p) { p.sequence(3).overtakes = 65; }},
        StateMutation{"WaitsSinceTomorrow", "not come yet",
                      [](Populated& p) { p.sequence(4).waiting_since += kSecondNs; }},
        StateMutation{"LongestWaitingNotFirst", "do not come first",
                      [](Populated& p) {
                        p.sequence(3).waiting_since = -kSecondNs, p.sequence(2).waiting_since = 0;
                        p.sequence(4).waiting_since = -2 * kSecondNs;
                      }},
        StateMutation{"LevelOfItsOwn", "level of its own", [](Populated& p) { p.sequence(1).request->level = 7; }},
        StateMutation{"ReasonNotCounted", "sequences_by_reason",
                      [](Populated& p) { p.sequence(3).reason = WaitReason::kPrefix; }},
        StateMutation{"HeadroomWithoutEnd", "more than half", [](Populated& p) { p.impl().headroom_ = 9; }},
        StateMutation{"PromptNotCounted", "not counted", [](Populated& p) { --p.sequence(1).request->prompt_counted; }},
        StateMutation{"EndedTwice", "no sequence left", [](Populated& p) { p.impl().stop(p.sequence(3), false); }},
        StateMutation{"GoesOnPastItsLimit", "used up", [](Populated& p) { p.sequence(1).request->output_max = 1; }},
        StateMutation{"PromiseForgotten", "blocks_promised", [](Populated& p) { --p.impl().blocks_promised_; }},
        StateMutation{"DraftsWithoutARow", "more drafts than it may", [](Populated& p) { p.sequence(1).drafts = 1; }},
        StateMutation{"GaugeOff", "sequences_waiting", [](Populated& p) { ++p.impl().gauges_.sequences_waiting; }},
        StateMutation{"TokenGaugeOff", "waiting_prompt_tokens",
                      [](Populated& p) { --p.impl().gauges_.waiting_prompt_tokens; }}),
    [](const auto& mutation) { return mutation.param.name; });

class BrokenTenant : public ::testing::TestWithParam<StateMutation> {};

TEST_P(BrokenTenant, IsFound) {
  Populated populated(Order::kFair);
  ASSERT_EQ(populated.scheduler.check_invariants(), "");
  GetParam().breaks(populated);
  EXPECT_THAT(populated.scheduler.check_invariants(), HasSubstr(GetParam().found));
}

Tenant& tenant_of(Populated& p, RequestId request) { return *p.sequence(request).request->tenant; }

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenTenant,
    ::testing::Values(
        StateMutation{"UnderAnotherId", "the queue does not hold", [](Populated& p) { ++tenant_of(p, 1).id; }},
        StateMutation{"NegativeService", "counts more than its tenant got",
                      [](Populated& p) { tenant_of(p, 1).service = -1; }},
        StateMutation{"WeightNotCounted", "busy tenants is miscounted",
                      [](Populated& p) { tenant_of(p, 1).weight = 2; }},
        StateMutation{"IdleWithRequests", "contrary to its requests",
                      [](Populated& p) { tenant_of(p, 1).requests = 0; }},
        StateMutation{"RequestTooMany", "counts its requests", [](Populated& p) { ++tenant_of(p, 1).requests; }},
        StateMutation{"WaitingTooMany", "counts its requests", [](Populated& p) { ++tenant_of(p, 3).waiting; }},
        StateMutation{"RunningTooFew", "counts its requests", [](Populated& p) { --tenant_of(p, 1).running; }},
        StateMutation{"ChargedToAnother", "charged to another",
                      [](Populated& p) {
                        static Tenant other;
                        p.sequence(3).request->tenant = &other;
                      }}),
    [](const auto& mutation) { return mutation.param.name; });

// A block shared by sequences that differ: rows can be sound, and yet one reads what the other wrote.
TEST(BrokenSharing, OfFullBlocksIsFound) {
  SchedulerLimits limits = small_limits();
  limits.prefix_cache = false;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(6), 30)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(6, 20), 30)).ok());
  harness.step();
  Impl& impl = SchedulerTestPeer::impl(harness.scheduler);
  Sequence& first = *SchedulerTestPeer::sequence(harness.scheduler, 1);
  Sequence& second = *SchedulerTestPeer::sequence(harness.scheduler, 2);
  impl.pool_.acquire(first.blocks[0]);
  impl.pool_.release(second.blocks[0]);
  second.blocks[0] = first.blocks[0];
  EXPECT_THAT(harness.scheduler.check_invariants(), HasSubstr("on which they differ"));
  // And the backend's view of it, without looking into the scheduler: what is read there belongs to other tokens.
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  ASSERT_TRUE(harness.backend->submit(harness.plan).ok());
  ASSERT_TRUE(harness.backend->wait(harness.result).ok());
  ASSERT_EQ(harness.backend->faults().size(), 1u);
  EXPECT_THAT(harness.backend->faults()[0], HasSubstr("another chain of tokens"));
}

TEST(BrokenSharing, OfOneThatSharesNothingIsFound) {
  SchedulerLimits limits = small_limits();
  limits.order = Order::kFair;
  Harness harness(limits);
  for (RequestId id = 1; id <= 2; ++id) {
    Request request = make_request(id, make_prompt(8), 30);
    request.tenant = id;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  harness.step();
  ASSERT_EQ(harness.scheduler.check_invariants(), "");
  Sequence& second = *SchedulerTestPeer::sequence(harness.scheduler, 2);
  second.request->request.use_prefix_cache = false;
  second.registered = 0;
  EXPECT_THAT(harness.scheduler.check_invariants(), HasSubstr("shares nothing"));
}

struct PlanMutation {
  const char* name;
  const char* found;
  std::function<void(StepPlan&)> breaks;
  friend void PrintTo(const PlanMutation& mutation, std::ostream* out) { *out << mutation.name; }
};

class BrokenPlan : public ::testing::TestWithParam<PlanMutation> {};

// Two decodes and a chunk of a third request.
TEST_P(BrokenPlan, IsFound) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 6;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 30)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(5, 20), 30)).ok());
  harness.step();
  ASSERT_TRUE(harness.submit(make_request(3, make_prompt(20, 30), 30)).ok());
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  PlanChecker untouched = harness.checker;
  ASSERT_EQ(untouched.check(harness.plan, counts, 4), "");
  ASSERT_EQ(harness.plan.rows.size(), 3u);
  GetParam().breaks(harness.plan);
  EXPECT_THAT(harness.checker.check(harness.plan, counts, 4), HasSubstr(GetParam().found));
}

void drop_first_row(StepPlan& plan) {
  const Row dropped = plan.rows[0];
  plan.tokens.erase(plan.tokens.begin());
  plan.blocks.erase(plan.blocks.begin(), plan.blocks.begin() + dropped.block_count);
  plan.rows.erase(plan.rows.begin());
  for (Row& row : plan.rows) {
    row.token_begin -= dropped.token_count;
    row.block_begin -= dropped.block_count;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BrokenPlan,
    ::testing::Values(
        PlanMutation{"OverBudget", "more tokens than a step may carry",
                     [](StepPlan& p) {
                       p.tokens.resize(17), p.rows[2].token_count = 15;
                       p.blocks.insert(p.blocks.end(), {14, 15}), p.rows[2].block_count = 4;
                     }},
        PlanMutation{"ChunkTooLong", "longer than a chunk",
                     [](StepPlan& p) { p.tokens.resize(9), p.rows[2].token_count = 7; }},
        PlanMutation{"RowTwice", "there twice", [](StepPlan& p) { p.rows[1].sequence = p.rows[0].sequence; }},
        PlanMutation{"DecodeBehindPrefill", "behind a prefill",
                     [](StepPlan& p) { p.rows[0].prompt_count = static_cast<uint32_t>(p.rows[0].history.size()); }},
        PlanMutation{"StepSkipped", "not numbered", [](StepPlan& p) { ++p.step; }},
        PlanMutation{"WritesToAnothersBlock", "block of another row",
                     [](StepPlan& p) { p.blocks[p.rows[1].block_begin + 1] = p.blocks[p.rows[0].block_begin + 1]; }},
        PlanMutation{"BlockTwiceInATable", "names a block twice",
                     [](StepPlan& p) { p.blocks[p.rows[0].block_begin] = p.blocks[p.rows[0].block_begin + 1]; }},
        PlanMutation{"UnknownBlock", "unknown block", [](StepPlan& p) { p.blocks[0] = 16; }},
        PlanMutation{"TableTooShort", "do not cover",
                     [](StepPlan& p) { --p.rows[2].block_count, p.blocks.pop_back(); }},
        PlanMutation{"TableTooLong", "does not fit its tokens",
                     [](StepPlan& p) { ++p.rows[2].block_count, p.blocks.push_back(15); }},
        PlanMutation{"OtherTokens", "history's last", [](StepPlan& p) { p.tokens[0] = (p.tokens[0] + 1) % 50; }},
        PlanMutation{"TokenOutsideTheVocabulary", "outside the vocabulary", [](StepPlan& p) { p.tokens.back() = 50; }},
        PlanMutation{"SamplesInMidPrompt", "without sampling", [](StepPlan& p) { p.rows[2].samples = true; }},
        PlanMutation{"DecodeLeftOut", "miscounted", drop_first_row},
        PlanMutation{"CopyToNowhere", "no row uses",
                     [](StepPlan& p) {
                       p.copies.push_back({0, 15});
                     }},
        PlanMutation{"CopyOverASource", "was copied from",
                     [](StepPlan& p) {
                       p.copies = {{p.blocks[0], p.blocks[2]}, {p.blocks[1], p.blocks[0]}};
                     }}),
    [](const auto& mutation) { return mutation.param.name; });

TEST(BrokenPlans, ADecodeLeftOutIsFoundEvenWhenTheCountsAgree) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 30)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(5, 20), 30)).ok());
  harness.step();
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  drop_first_row(harness.plan);
  --counts.shape.decode_rows;
  --counts.shape.decode_tokens;
  --counts.shape.logit_tokens;
  --counts.sampled_tokens;
  counts.shape.decode_context -= 6;
  counts.shape.decode_positions -= 6;
  EXPECT_THAT(harness.checker.check(harness.plan, counts, 4), HasSubstr("a running decode got no row"));
}

TEST(BrokenPlans, ARowThatDoesNotGoOnWhereItWasIsFound) {
  SchedulerLimits limits = small_limits();
  limits.max_chunk_tokens = 5;
  Harness harness(limits);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(30), 30)).ok());
  harness.step();
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  --harness.plan.rows[0].position;
  --harness.plan.rows[0].token_count;
  harness.plan.tokens.pop_back();
  counts.computed_tokens -= 1;
  counts.shape.prefill_tokens -= 1;
  counts.shape.prefill_context = 5 + 6 + 7 + 8;
  counts.shape.prefill_positions = 8;
  harness.plan.rows[0].block_count = 2;
  harness.plan.blocks.resize(2);
  EXPECT_THAT(harness.checker.check(harness.plan, counts, 4), HasSubstr("does not go on"));
}

// What the harness itself finds in events and counts.
TEST(BrokenEvents, ASecondEndIsFound) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 1)).ok());
  harness.step();
  ASSERT_EQ(harness.problem, "");
  harness.take_events();  // the same ones again
  EXPECT_THAT(harness.problem, HasSubstr("after its end"));
}

TEST(BrokenEvents, AMissingEndIsFound) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 1)).ok());
  harness.scheduler.cancel(1, 0);
  std::vector<Event> lost;
  harness.scheduler.drain_events(lost);
  harness.check_ends();
  EXPECT_THAT(harness.problem, HasSubstr("never ended"));
}

TEST(BrokenEvents, WrongTokensAreFound) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 3)).ok());
  harness.step();
  auto* sequence = SchedulerTestPeer::sequence(harness.scheduler, 1);
  sequence->tokens.back() = (sequence->tokens.back() + 1) % 50;
  harness.run();
  EXPECT_THAT(harness.problem, HasSubstr("other tokens than alone"));
}

TEST(BrokenEvents, AWrongCountOfTokensIsFound) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(30), 3)).ok());
  harness.step();
  SchedulerTestPeer::sequence(harness.scheduler, 1)->request->prompt_counted = 20;
  harness.step();
  EXPECT_THAT(harness.problem, HasSubstr("computed_tokens"));
}

TEST(BrokenProgress, AStallIsFound) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 3)).ok());
  auto* sequence = SchedulerTestPeer::sequence(harness.scheduler, 1);
  SchedulerTestPeer::impl(harness.scheduler).waiting_.remove(*sequence);
  EXPECT_FALSE(harness.step());
  EXPECT_THAT(harness.problem, HasSubstr("the queue does not hold"));
}

TEST(BrokenProgress, TakingTooLongIsFound) {
  Harness harness;
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 30)).ok());
  harness.run(10);
  EXPECT_THAT(harness.problem, HasSubstr("not done after 10 steps"));
}

}  // namespace
}  // namespace twostroke::test
