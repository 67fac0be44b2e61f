#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

SchedulerLimits wide_limits() {
  SchedulerLimits limits;
  limits.max_step_tokens = 64;
  limits.max_running = 16;
  limits.max_chunk_tokens = 64;
  return limits;
}

// Several requests whose outputs outgrow the pool of 16 blocks.
class UnderPressure : public Harness {
 public:
  explicit UnderPressure(RequestId requests = 6, uint32_t output = 30) : Harness(wide_limits()) {
    for (RequestId id = 1; id <= requests; ++id) {
      EXPECT_TRUE(submit(make_request(id, make_prompt(5, static_cast<TokenId>(7 * id)), output)).ok());
    }
  }
};

TEST(Preemption, LeavesNoTraceInTheOutput) {
  UnderPressure harness;
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_GT(harness.total.preemptions, 0u);
  EXPECT_EQ(harness.total.sampled_tokens, 6u * 30);
}

// Criterion 5: a token of a row that was planned before its sequence gave way would be stale.
TEST(Preemption, TakesTheVictimsRowOutOfThePlanAndRefundsItsBudget) {
  UnderPressure harness(12);
  auto& impl = SchedulerTestPeer::impl(harness.scheduler);
  bool seen = false;
  while (true) {
    std::vector<SequenceId> before;  // ids: a sequence that ends in the step is gone after it
    for (const Sequence* sequence : impl.running_) before.push_back(sequence->id);
    if (!harness.step()) break;
    if (harness.counts.preemptions == 0) continue;
    // Rows are decided in order of age: a victim older than one that got a row had its own already.
    bool victim_seen = false;
    std::set<SequenceId> waiting;
    for (const Sequence* sequence = impl.waiting_.first(); sequence; sequence = impl.waiting_.next(*sequence)) {
      waiting.insert(sequence->id);
    }
    for (const SequenceId id : before) {
      const bool has_row = std::ranges::find(harness.plan.rows, id, &Row::sequence) != harness.plan.rows.end();
      if (victim_seen && has_row) seen = true;
      victim_seen |= waiting.contains(id);
    }
    EXPECT_EQ(impl.step_.tokens_left, 64 - harness.plan.tokens.size());
  }
  EXPECT_EQ(harness.problem, "");
  EXPECT_TRUE(seen);
}

// Criterion 9.
TEST(Preemption, ChoosesTheOneThatLosesTheLeastUncachedWork) {
  Harness harness(wide_limits());
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(5), 30)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(13, 20), 30)).ok());
  Request uncached = make_request(3, make_prompt(6, 30), 30);
  uncached.use_prefix_cache = false;
  ASSERT_TRUE(harness.submit(std::move(uncached)).ok());
  harness.step();
  const auto& impl = SchedulerTestPeer::impl(harness.scheduler);
  const auto victim_for = [&](RequestId id) {
    const Sequence* victim = impl.cheapest_victim(*SchedulerTestPeer::sequence(harness.scheduler, id));
    return victim == nullptr ? 0 : victim->request->request.id;
  };
  EXPECT_EQ(impl.uncached_work(*SchedulerTestPeer::sequence(harness.scheduler, 2)), 1u) << "12 of 13 are cached";
  EXPECT_EQ(impl.uncached_work(*SchedulerTestPeer::sequence(harness.scheduler, 3)), 6u);
  EXPECT_EQ(victim_for(1), 2u) << "not the youngest: it would lose more";
  EXPECT_EQ(victim_for(3), 2u);
  EXPECT_EQ(victim_for(2), 3u) << "neither itself nor the oldest";
  harness.finish_sequence(3, 0);
  EXPECT_EQ(victim_for(2), 0u) << "the oldest is never a victim";
}

TEST(Preemption, OfEqualLossesTakesTheYoungest) {
  Harness harness(wide_limits());
  for (RequestId id = 1; id <= 4; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(7 * id)), 9)).ok());
  }
  harness.step();
  const Sequence* victim =
      SchedulerTestPeer::impl(harness.scheduler).cheapest_victim(*SchedulerTestPeer::sequence(harness.scheduler, 1));
  ASSERT_NE(victim, nullptr);
  EXPECT_EQ(victim->request->request.id, 4u);
}

// Criterion 4. Requests 2 and 3 are twins and share all their blocks: stopping one of them frees nothing.
TEST(Preemption, NeverTakesAVictimThatFreesNothing) {
  SimOptions machine = small_machine();
  machine.info.block_count = 11;
  SchedulerLimits limits = wide_limits();
  limits.order = Order::kFair;  // nobody waits for what another tenant computes
  Harness harness(limits, std::move(machine));
  for (RequestId id = 1; id <= 3; ++id) {
    Request request = make_request(id, id == 1 ? make_prompt(16) : make_prompt(8, 20), 25);
    request.sampling.temperature = 0;
    request.tenant = id;
    ASSERT_TRUE(harness.submit(std::move(request)).ok());
  }
  // Every 4 steps all three need a block at once, the twins of which one is given back when it is full. In step 10 the
  // oldest gets the last block there is.
  for (int i = 0; i < 9; ++i) harness.step();
  EXPECT_EQ(harness.scheduler.gauges().blocks_free, 1u);
  EXPECT_EQ(harness.scheduler.gauges().blocks_referenced, 10u);
  for (int i = 0; i < 4; ++i) {
    harness.step();
    EXPECT_NE(harness.row(1), nullptr);
    EXPECT_EQ(harness.row(2), nullptr) << "it waits with what it has";
    EXPECT_EQ(harness.row(3), nullptr);
    EXPECT_EQ(harness.total.preemptions, 0u);
  }
  // Now the oldest needs one: only both together can give it.
  harness.step();
  EXPECT_NE(harness.row(1), nullptr);
  EXPECT_EQ(harness.counts.preemptions, 2u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Preemption, PutsTheVictimBackAtThePlaceOfItsArrival) {
  UnderPressure harness(4);
  ASSERT_TRUE(harness.submit(make_request(9, make_prompt(40, 11), 3)).ok());
  while (harness.step() && harness.counts.preemptions == 0) {
  }
  auto& impl = SchedulerTestPeer::impl(harness.scheduler);
  ASSERT_NE(impl.waiting_.first(), nullptr);
  EXPECT_LE(impl.waiting_.first()->request->request.id, 4u);
  EXPECT_EQ(impl.waiting_.next(*impl.waiting_.first())->request->request.id, 9u);
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

TEST(Preemption, AdmitsNobodyInTheSameStep) {
  UnderPressure harness(8);
  while (harness.step()) {
    if (harness.counts.preemptions == 0) continue;
    for (const Row& row : harness.plan.rows) EXPECT_EQ(row.token_count, 1u) << "only those that ran before";
  }
  EXPECT_EQ(harness.problem, "");
}

// Resumed requests match on all their tokens, not only the prompt.
TEST(Preemption, FindsItsOutputAgainInThePrefixCache) {
  UnderPressure harness(2, 50);
  while (harness.step() && harness.counts.preemptions == 0) {
  }
  EXPECT_EQ(harness.row(2), nullptr);
  const size_t length = 5 + harness.track(2).outputs[0].size();
  harness.finish_sequence(1, 0);
  harness.step();
  const Row* row = harness.row(2);
  ASSERT_NE(row, nullptr);
  EXPECT_GT(row->position, length - 9) << "all its full blocks but the one that was taken";
  EXPECT_EQ(harness.counts.cached_tokens, 0u) << "its own work is no hit";
  harness.run();
  EXPECT_EQ(harness.problem, "");
}

// Criteria 9 and 23: work done again is counted as such, and never as new or as cached.
TEST(Preemption, CountsRecomputedTokensApart) {
  SchedulerLimits limits = wide_limits();
  limits.prefix_cache = false;
  Harness harness(limits);
  for (RequestId id = 1; id <= 6; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(7 * id)), 30)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.total.computed_tokens, 6u * 5);
  EXPECT_EQ(harness.total.cached_tokens, 0u);
  EXPECT_GT(harness.total.recomputed_tokens, 0u);
  uint32_t recomputed = 0;
  uint32_t preemptions = 0;
  for (const auto& [id, track] : harness.tracks()) {
    recomputed += track.summary.recomputed_tokens;
    preemptions += track.summary.preemptions;
  }
  EXPECT_EQ(recomputed, harness.total.recomputed_tokens);
  EXPECT_EQ(preemptions, harness.total.preemptions);
}

// Criterion 8.
TEST(Preemption, ThroughputRecoversWhenThePressureEnds) {
  UnderPressure harness;
  harness.run();
  ASSERT_GT(harness.total.preemptions, 0u);
  const uint64_t steps_before = harness.steps;
  for (RequestId id = 11; id <= 13; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(3 * id)), 10)).ok());
  }
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_EQ(harness.steps - steps_before, 10u + 1) << "each got a token in every step";
}

// Criterion 2, with a pool so small that everybody is in everybody's way.
TEST(Preemption, NeverEndsInALivelock) {
  SimOptions machine = small_machine();
  machine.info.block_count = 5;
  Harness harness(wide_limits(), std::move(machine));
  for (RequestId id = 1; id <= 10; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(3, static_cast<TokenId>(5 * id)), 16)).ok());
  }
  harness.run(10 * 16 * 2);
  EXPECT_EQ(harness.problem, "");
}

// Criterion 9: whoever has given way max_preemptions times is passed over while another can give way in its place.
TEST(Preemption, WhoHasGivenWayTooOftenIsSpared) {
  SchedulerLimits limits = wide_limits();
  limits.max_preemptions = 2;
  Harness harness(limits);
  for (RequestId id = 1; id <= 4; ++id) {
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(5, static_cast<TokenId>(7 * id)), 9)).ok());
  }
  harness.step();
  auto& impl = SchedulerTestPeer::impl(harness.scheduler);
  const auto victim = [&] {
    const Sequence* found = impl.cheapest_victim(*SchedulerTestPeer::sequence(harness.scheduler, 1));
    return found == nullptr ? 0 : found->request->request.id;
  };
  EXPECT_EQ(victim(), 4u);
  SchedulerTestPeer::sequence(harness.scheduler, 4)->preemptions = 2;
  EXPECT_EQ(victim(), 3u) << "the next youngest, though it loses as much";
  SchedulerTestPeer::sequence(harness.scheduler, 3)->preemptions = 2;
  SchedulerTestPeer::sequence(harness.scheduler, 2)->preemptions = 2;
  EXPECT_EQ(victim(), 4u) << "when nobody else is left, the rule as before";
}

// Without headroom, whoever came back would start in the step after it gave way, and give way again.
TEST(Preemption, AdmissionKeepsBlocksFreeAfterTheyRanOut) {
  UnderPressure harness(8);
  while (harness.step()) {
    if (harness.counts.preemptions > 0) {
      EXPECT_GT(harness.scheduler.gauges().blocks_headroom, 0u);
    }
  }
  EXPECT_EQ(harness.problem, "");
  EXPECT_GT(harness.total.preemptions, 0u);
  EXPECT_LE(harness.total.preemptions, 2u * 8) << "nobody is sent back and forth";
  EXPECT_EQ(harness.scheduler.gauges().blocks_headroom, 0u) << "with nothing running there is nothing to protect";
}

}  // namespace
}  // namespace twostroke::test
