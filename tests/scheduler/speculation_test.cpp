// Drafts: what they may take, what they must not change, and when there are none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"
#include "tests/scheduler/scheduler_test_peer.h"

namespace twostroke::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// What the cost model begins with and what the machine then takes for a step: a millisecond, and token_ns for each
// token but the first.
struct Price {
  double token_ns = 0;
};

SchedulerLimits drafting_limits(Price price = {}) {
  SchedulerLimits limits;
  limits.max_step_tokens = 64;
  limits.max_running = 16;
  limits.max_draft_tokens = 8;
  limits.costs.emplace();
  for (size_t i = 0; i < kCostKnotCount; ++i) {
    limits.costs->token_ns[i] = 1e6 + (kCostKnots[i] - 1) * price.token_ns;
  }
  return limits;
}

SimOptions roomy_machine(Price price = {}) {
  SimOptions options = small_machine();
  options.info.context_max = 400;
  options.info.block_count = 200;
  options.info.weight_bytes = options.info.kv_bytes_per_token = 0;
  options.info.flops_per_token = price.token_ns;
  options.machine.peak_flops = 1e9;  // a nanosecond each
  options.machine.compute_efficiency = 1;
  options.machine.step_overhead_ns = static_cast<TimeNs>(1e6 - price.token_ns);
  return options;
}

// A machine that answers with what follows in a text without end, of `period` tokens over and over.
SimOptions copying_machine(uint32_t period = 20, Price price = {}) {
  SimOptions machine = roomy_machine(price);
  machine.script = [period](const SimRowView& view) { return static_cast<TokenId>(view.output_index % period); };
  return machine;
}

// Steps until nothing is left, without comparing the output with the fake model's.
void run_scripted(Harness& harness) {
  while (harness.step()) ASSERT_LT(harness.steps, 2000u);
  ASSERT_EQ(harness.problem, "");
}

TEST(Speculation, ATextThatRepeatsComesSeveralTokensAStep) {
  Harness harness(drafting_limits(), copying_machine());
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 200)).ok());
  run_scripted(harness);
  std::vector<TokenId> expected;
  for (uint32_t i = 0; i < 200; ++i) expected.push_back(static_cast<TokenId>(i % 20));
  EXPECT_EQ(harness.track(1).outputs[0], expected);
  EXPECT_EQ(harness.track(1).summary.output_tokens, 200u);
  EXPECT_LT(harness.steps, 60u) << "20 tokens are new, 180 come nine at a time";
  EXPECT_EQ(harness.total.sampled_tokens + harness.total.accepted_draft_tokens, 200u);
  EXPECT_LE(harness.total.accepted_draft_tokens, harness.total.draft_tokens);
}

TEST(Speculation, IsOffUnlessAskedFor) {
  SchedulerLimits limits = drafting_limits();
  limits.max_draft_tokens = SchedulerLimits{}.max_draft_tokens;
  Harness harness(limits, copying_machine());
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 100)).ok());
  run_scripted(harness);
  EXPECT_EQ(harness.total.draft_tokens, 0u);
  EXPECT_EQ(harness.steps, 101u) << "the last finds nothing";
}

TEST(Speculation, NeedsABackendThatTakesDrafts) {
  SimOptions machine = copying_machine();
  machine.info.step_drafts_max = 0;
  Harness harness(drafting_limits(), std::move(machine));
  EXPECT_EQ(harness.scheduler.limits().max_draft_tokens, 0u);
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 100)).ok());
  run_scripted(harness);
  EXPECT_EQ(harness.total.draft_tokens, 0u);
}

// The fake model's tokens follow from all tokens before them: greedy and sampled, penalised, with log-probabilities.
TEST(Speculation, ChangesNothingOfWhatComesOut) {
  const auto events_of = [](uint32_t max_draft_tokens) {
    SchedulerLimits limits = drafting_limits();
    limits.max_draft_tokens = max_draft_tokens;
    SimOptions machine = roomy_machine();
    machine.info.vocab_size = 12;  // so that some of it repeats
    Harness harness(limits, std::move(machine));
    for (RequestId id = 1; id <= 8; ++id) {
      Request request = make_request(id, std::vector<TokenId>(3, static_cast<TokenId>(id)), 90);
      request.sampling.temperature = id % 2 == 0 ? 0.0F : 0.8F;
      request.sampling.seed = id;
      request.sampling.logprobs = 2;
      if (id % 3 == 0) request.sampling.frequency_penalty = 0.3F;
      if (id % 4 == 0) request.sampling.repetition_penalty = 1.3F;
      if (id == 5) request.n = 3;
      if (id == 6) request.stop_tokens = {11};
      EXPECT_TRUE(harness.submit(std::move(request)).ok());
    }
    std::map<std::pair<RequestId, uint32_t>, std::vector<SampledToken>> tokens;
    while (harness.step()) {
      for (const Event& event : harness.events) {
        if (event.kind != Event::Kind::kToken) continue;
        tokens[{event.request, event.sequence}].push_back({event.token, event.logprob, event.rank, event.top});
      }
    }
    harness.check_ends();
    EXPECT_EQ(harness.problem, "");
    EXPECT_EQ(harness.total.accepted_draft_tokens > 0, max_draft_tokens > 0);
    EXPECT_EQ(harness.total.draft_tokens > harness.total.accepted_draft_tokens, max_draft_tokens > 0);
    return tokens;
  };
  EXPECT_EQ(events_of(8), events_of(0));
}

TEST(Speculation, TokensOfOneStepAreNoTimeApart) {
  Harness harness(drafting_limits(), copying_machine());
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 100)).ok());
  TimeNs waited = 0;
  TimeNs first = -1;
  TimeNs last = -1;
  bool several = false;
  while (harness.step()) {
    bool leads = true;
    for (const Event& event : harness.events) {
      if (event.kind != Event::Kind::kToken) continue;
      EXPECT_EQ(event.same_step, !leads);
      EXPECT_EQ(event.gap_ns, !leads ? 0 : last < 0 ? -1 : harness.now - last);
      several |= !leads;
      leads = false;
      waited += std::max<TimeNs>(event.gap_ns, 0);
      if (first < 0) first = event.time;
      last = event.time;
    }
  }
  EXPECT_TRUE(several);
  EXPECT_EQ(waited, last - first) << "the gaps add up to the whole time";
}

TEST(Speculation, AStopTokenAmongAcceptedDraftsEndsTheSequenceThere) {
  SimOptions machine = copying_machine(10);
  Harness harness(drafting_limits(), std::move(machine));
  // The text to be copied goes on behind the stop token, and the prompt shows it all.
  std::vector<TokenId> prompt;
  for (TokenId i = 0; i < 20; ++i) prompt.push_back(i % 10);
  Request request = make_request(1, prompt, 100);
  request.stop_tokens = {7};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  run_scripted(harness);
  const Harness::Track& track = harness.track(1);
  EXPECT_THAT(track.outputs[0], ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(track.finished[0], FinishReason::kStop);
  EXPECT_EQ(track.summary.output_tokens, 8u);
  EXPECT_LT(harness.steps, 8u) << "so drafts were accepted";
}

TEST(Speculation, NeverMakesMoreTokensThanWereAskedForOrFit) {
  for (const uint32_t max_tokens : {25u, 30u, 31u, 32u, 33u, 34u, 1000u}) {
    Harness harness(drafting_limits(), copying_machine(5));
    ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), max_tokens)).ok());
    run_scripted(harness);
    const Harness::Track& track = harness.track(1);
    EXPECT_EQ(track.outputs[0].size(), std::min(max_tokens, 380u));
    EXPECT_EQ(track.finished[0], FinishReason::kLength);
    EXPECT_GT(harness.total.accepted_draft_tokens, 0u);
  }
}

TEST(Speculation, StopsWhereTheTextDoesNotRepeatAndStartsAgainWhereItDoes) {
  // 150 tokens at random from so few that every pair has been there before; then the text repeats itself.
  const Price price{0.35e6};
  SimOptions machine = roomy_machine(price);
  machine.script = [random = std::mt19937(1), text = std::vector<TokenId>()](const SimRowView& view) mutable {
    while (text.size() <= view.output_index) text.push_back(static_cast<TokenId>(random() % 8));
    return view.output_index < 150 ? text[view.output_index] : static_cast<TokenId>(10 + view.output_index % 20);
  };
  Harness harness(drafting_limits(price), std::move(machine));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 300)).ok());
  uint32_t early = 0;
  uint32_t middle = 0;
  size_t steps_at_the_end = 0;
  while (harness.step()) {
    const size_t output = harness.track(1).outputs[0].size();
    if (output < 100) early += harness.counts.draft_tokens;
    if (output >= 100 && output < 150) middle += harness.counts.draft_tokens;
    if (output >= 200) ++steps_at_the_end;
  }
  EXPECT_GT(early, 0u);
  EXPECT_LT(middle, 10u) << "it has learned that they are in vain";
  EXPECT_LT(steps_at_the_end, 50u) << "and that they are not";
}

TEST(Speculation, ADraftThatCostsMoreThanItGainsIsNotSent) {
  const Price price{0.95e6};
  Harness harness(drafting_limits(price), copying_machine(20, price));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 100)).ok());
  run_scripted(harness);
  EXPECT_EQ(harness.total.draft_tokens, 0u);
}

TEST(Speculation, SwitchesItselfOffAtALargeBatch) {
  const Price price{0.5e6};  // of twelve, each gives 0.54 ms of a step a token, and a draft adds 0.5
  Harness harness(drafting_limits(price), copying_machine(5, price));
  for (RequestId id = 1; id <= 12; ++id) {
    const uint32_t tokens = id == 1 ? 100 : 40;
    ASSERT_TRUE(harness.submit(make_request(id, make_prompt(4, static_cast<TokenId>(id)), tokens)).ok());
  }
  std::map<uint32_t, uint32_t> drafts;  // by decode rows
  while (harness.step()) drafts[harness.counts.shape.decode_rows] += harness.counts.draft_tokens;
  ASSERT_EQ(harness.problem, "");
  EXPECT_EQ(drafts.at(12), 0u);
  EXPECT_GT(drafts.at(1), 0u);
}

TEST(Speculation, TakesOnlyTheTokensThatPrefillLeavesInAStep) {
  SchedulerLimits limits = drafting_limits();
  limits.max_step_tokens = 12;
  limits.max_chunk_tokens = 12;
  Harness harness(limits, copying_machine(5));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10, 20), 60)).ok());
  while (harness.track(1).outputs[0].size() < 20) ASSERT_TRUE(harness.step());
  EXPECT_GT(harness.counts.draft_tokens, 0u);
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(40, 30), 1)).ok());
  for (const uint32_t prefill : {11u, 11u, 11u, 7u}) {
    ASSERT_TRUE(harness.step());
    EXPECT_EQ(harness.counts.shape.prefill_tokens, prefill);
    EXPECT_EQ(harness.counts.draft_tokens, 11 - prefill);
  }
  ASSERT_TRUE(harness.step());
  EXPECT_EQ(harness.counts.draft_tokens, 8u);
}

TEST(Speculation, KeepsTheObjectiveBetweenTokens) {
  for (const auto& [objective_ns, drafts] : {std::pair<TimeNs, uint32_t>{1'350'000, 3}, {1'050'000, 0}, {0, 8}}) {
    const Price price{0.1e6};
    SchedulerLimits limits = drafting_limits(price);
    limits.itl_target_ns = objective_ns;
    Harness harness(limits, copying_machine(5, price));
    ASSERT_TRUE(harness.submit(make_request(1, make_prompt(10, 20), 100)).ok());
    uint32_t most = 0;
    while (harness.step()) most = std::max(most, harness.counts.draft_tokens);
    ASSERT_EQ(harness.problem, "");
    EXPECT_EQ(most, drafts) << "with " << objective_ns << " ns";
  }
}

// Blocks for drafts are what nobody else needs in the step, and are back with its commit (check_invariants).
TEST(Speculation, TakesNobodysBlocks) {
  const auto run = [](uint32_t max_draft_tokens) {
    SchedulerLimits limits = drafting_limits();
    limits.max_draft_tokens = max_draft_tokens;
    SimOptions machine = roomy_machine();
    machine.info.block_count = 16;  // of 4
    machine.info.vocab_size = 4;
    Harness harness(limits, std::move(machine));
    for (RequestId id = 1; id <= 6; ++id) {
      Request request = make_request(id, std::vector<TokenId>(5, static_cast<TokenId>(id % 4)), 30);
      request.sampling.temperature = 0;
      EXPECT_TRUE(harness.submit(std::move(request)).ok());
    }
    harness.run();
    EXPECT_EQ(harness.problem, "");
    return harness.total;
  };
  const StepCounts plain = run(0);
  const StepCounts drafted = run(8);
  EXPECT_GT(plain.preemptions, 0u);
  EXPECT_GT(drafted.accepted_draft_tokens, 0u);
  EXPECT_LE(drafted.preemptions, plain.preemptions + 2);
}

TEST(Speculation, WhatWasNotAcceptedNeverEntersThePrefixCache) {
  const auto cached_blocks = [](uint32_t max_draft_tokens) {
    SchedulerLimits limits = drafting_limits();
    limits.max_draft_tokens = max_draft_tokens;
    SimOptions machine = roomy_machine();
    machine.info.vocab_size = 6;
    Harness harness(limits, std::move(machine));
    EXPECT_TRUE(harness.submit(make_request(1, make_prompt(5), 120)).ok());
    harness.run();
    EXPECT_EQ(harness.problem, "");
    EXPECT_EQ(harness.total.draft_tokens > harness.total.accepted_draft_tokens, max_draft_tokens > 0);
    return SchedulerTestPeer::impl(harness.scheduler).cache_.size();
  };
  EXPECT_EQ(cached_blocks(0), (5u + 119) / 4);
  EXPECT_EQ(cached_blocks(8), (5u + 119) / 4);
}

TEST(Speculation, IsNotForRowsWhoseTokensAreRestricted) {
  const auto drafts_of = [](auto edit) {
    SimOptions machine = roomy_machine();
    machine.info.vocab_size = 4;
    Harness harness(drafting_limits(), std::move(machine));
    Request request = make_request(1, {1, 2, 3}, 60);
    request.stop_tokens = {};
    edit(request);
    EXPECT_TRUE(harness.submit(std::move(request)).ok());
    harness.run();
    EXPECT_EQ(harness.problem, "");
    return harness.total.draft_tokens;
  };
  EXPECT_GT(drafts_of([](Request&) {}), 0u);
  EXPECT_EQ(drafts_of([](Request& r) { r.constraints.push_back(std::make_unique<EvenConstraint>()); }), 0u);
  EXPECT_EQ(drafts_of([](Request& r) { r.allowed_tokens = {0, 1, 3}; }), 0u);
  EXPECT_EQ(drafts_of([](Request& r) { r.bad_words = {{1, 2}}; }), 0u);
}

TEST(Speculation, WaitsUntilMinTokensIsReached) {
  SimOptions machine = roomy_machine();
  machine.info.vocab_size = 4;
  Harness harness(drafting_limits(), std::move(machine));
  Request request = make_request(1, {1, 2, 1, 2, 1, 2}, 60);
  request.stop_tokens = {49};  // outside this vocabulary: never drawn
  request.min_tokens = 20;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  while (true) {
    const size_t output = harness.track(1).outputs[0].size();
    if (!harness.step()) break;
    if (output < 20) {
      EXPECT_EQ(harness.counts.draft_tokens, 0u);
    }
  }
  EXPECT_GT(harness.total.draft_tokens, 0u);
}

// The checks that all of this rests on.
TEST(Speculation, ItsOwnInvariantsAreChecked) {
  Harness harness(drafting_limits(), copying_machine(5));
  ASSERT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 100)).ok());
  while (harness.track(1).outputs[0].size() < 20) ASSERT_TRUE(harness.step());
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  ASSERT_EQ(harness.plan.rows.at(0).draft_count, 8u);
  ASSERT_EQ(harness.scheduler.check_invariants(), "");
  Sequence& sequence = *SchedulerTestPeer::sequence(harness.scheduler, 1);
  const auto expect_found = [&](const std::string& what) {
    EXPECT_THAT(harness.scheduler.check_invariants(), HasSubstr(what));
  };
  const uint32_t output_max = std::exchange(sequence.request->output_max, sequence.output_count() + 8);
  expect_found("drafts for which it has no tokens left");
  sequence.request->output_max = output_max;
  --sequence.drafts;
  expect_found("plans more tokens than it has");
  ++sequence.drafts;

  const auto expect_bad_plan = [&](auto edit, const std::string& what) {
    PlanChecker checker = harness.checker;
    StepPlan plan = harness.plan;
    StepCounts said = counts;
    edit(plan, said);
    EXPECT_THAT(checker.check(plan, said, 100), HasSubstr(what));
  };
  expect_bad_plan([](StepPlan&, StepCounts& said) { --said.draft_tokens; }, "drafts miscounted");
  expect_bad_plan([](StepPlan& plan, StepCounts&) { plan.rows[0].prompt_count = plan.rows[0].position + 1; },
                  "does not decode");
}

class BrokenDrafts : public ::testing::Test {
 protected:
  // Goes on until a row has drafts, and spoils the backend's result for it.
  Status error_of(const std::function<void(RowResult&, std::span<const TokenId> drafts)>& spoil) {
    Harness harness(drafting_limits(), copying_machine(5));
    EXPECT_TRUE(harness.submit(make_request(1, make_prompt(20, 20), 100)).ok());
    while (harness.track(1).outputs[0].size() < 20) EXPECT_TRUE(harness.step());
    harness.scheduler.schedule(harness.now, harness.plan, harness.counts);
    EXPECT_GT(harness.plan.rows.at(0).draft_count, 1u);
    EXPECT_TRUE(harness.backend->submit(harness.plan).ok());
    EXPECT_TRUE(harness.backend->wait(harness.result).ok());
    spoil(harness.result.rows[0], harness.plan.rows[0].drafts_in(harness.plan.tokens));
    harness.events.clear();
    harness.scheduler.commit(harness.plan, harness.result, harness.now, harness.events);
    EXPECT_EQ(harness.scheduler.check_invariants(), "");
    return harness.events.empty() ? Status() : harness.events.back().error;
  }
};

TEST_F(BrokenDrafts, AreTheBackendsFaultAndFailTheRequest) {
  EXPECT_TRUE(error_of([](RowResult&, auto) {}).ok());
  EXPECT_THAT(error_of([](RowResult& row, auto) { row.following.resize(9); }).message(),
              HasSubstr("10 tokens for a row with 8 drafts"));
  EXPECT_THAT(error_of([](RowResult& row, auto drafts) { row.token = (drafts[0] + 1) % 50; }).message(),
              HasSubstr("which is not the draft"));
  EXPECT_THAT(error_of([](RowResult& row, auto) { row.following[2].token = 49; }).message(),
              HasSubstr("the backend went on behind token 49"));
  EXPECT_THAT(error_of([](RowResult& row, auto) { row.following.back().token = 50; }).message(),
              HasSubstr("token 50, which is not in the vocabulary of 50"));
}

TEST_F(BrokenDrafts, ARowThatEndsEarlierThanItsDraftsDoIsFine) {
  EXPECT_TRUE(error_of([](RowResult& row, auto) { row.following.pop_back(); }).ok());
  EXPECT_TRUE(error_of([](RowResult& row, auto) { row.following.clear(); }).ok());
}

}  // namespace
}  // namespace twostroke::test
