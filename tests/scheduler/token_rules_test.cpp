#include "scheduler/token_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scheduler/even_constraint.h"
#include "tests/scheduler/harness.h"

namespace twostroke::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kVocab = 37;  // not a multiple of a mask's word

// A constraint that allows what it is told.
class FixedConstraint final : public TokenConstraint {
 public:
  explicit FixedConstraint(std::vector<TokenId> allowed) : allowed_(std::move(allowed)) {}
  void fill_mask(std::span<uint32_t> mask) override {
    for (const TokenId token : allowed_) mask[static_cast<size_t>(token) / 32] |= 1U << (token % 32);
  }
  void accept(TokenId) override {}

 private:
  std::vector<TokenId> allowed_;
};

// The tokens that may come behind `tokens`; checks that fill_mask() says whether there are any.
std::vector<TokenId> allowed_behind(const Request& request, const std::vector<TokenId>& tokens, uint32_t output_count,
                                    TokenConstraint* constraint = nullptr) {
  const TokenRules rules(request, kVocab);
  std::vector<uint32_t> mask(2, 0xdeadbeef);  // what an earlier step left
  const bool any = rules.fill_mask(tokens, output_count, constraint, mask);
  EXPECT_EQ(mask[1] >> (kVocab - 32), 0U) << "bits beyond the vocabulary";
  std::vector<TokenId> allowed;
  for (uint32_t token = 0; token < kVocab; ++token) {
    if ((mask[token / 32] >> (token % 32) & 1) != 0) allowed.push_back(static_cast<TokenId>(token));
  }
  EXPECT_EQ(any, !allowed.empty());
  return allowed;
}

std::vector<TokenId> all_but(std::vector<TokenId> banned) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(kVocab); ++token) {
    if (std::ranges::find(banned, token) == banned.end()) tokens.push_back(token);
  }
  return tokens;
}

TEST(TokenRules, WithoutAnyNeedNoMask) {
  Request request;
  request.stop_tokens = {1, 2};
  EXPECT_FALSE(TokenRules(request, kVocab).apply_to(std::vector<TokenId>{5}, 0));
}

TEST(TokenRules, AllowedTokensAreTheOnlyOnesAndStopTokensAreNoException) {
  Request request;
  request.allowed_tokens = {3, 5, 36};
  request.stop_tokens = {2};
  EXPECT_TRUE(TokenRules(request, kVocab).apply_to(std::vector<TokenId>{5}, 0));
  EXPECT_THAT(allowed_behind(request, {1}, 0), ElementsAre(3, 5, 36));
}

TEST(TokenRules, ABadWordOfOneTokenIsAlwaysBanned) {
  Request request;
  request.bad_words = {{4}, {36}};
  EXPECT_EQ(allowed_behind(request, {1}, 0), all_but({4, 36}));
  request.allowed_tokens = {4, 9};
  EXPECT_THAT(allowed_behind(request, {1}, 0), ElementsAre(9));
}

TEST(TokenRules, ALongerBadWordBansItsLastTokenWhereItsBeginningStands) {
  Request request;
  request.bad_words = {{1, 2, 3}, {7, 8}};
  const TokenRules rules(request, kVocab);
  const auto needs_mask = [&](const std::vector<TokenId>& tokens) { return rules.apply_to(tokens, 0); };
  EXPECT_FALSE(needs_mask({2}));
  EXPECT_FALSE(needs_mask({1}));
  EXPECT_FALSE(needs_mask({1, 2, 5}));
  EXPECT_FALSE(needs_mask({5, 2}));
  EXPECT_TRUE(needs_mask({1, 2}));
  EXPECT_EQ(allowed_behind(request, {1, 2}, 0), all_but({3}));
  EXPECT_EQ(allowed_behind(request, {9, 9, 1, 2}, 1), all_but({3}));
  EXPECT_EQ(allowed_behind(request, {1, 2, 7}, 0), all_but({8}));
}

TEST(TokenRules, StopTokensMayNotComeBeforeMinTokens) {
  Request request;
  request.stop_tokens = {0, 33};
  request.min_tokens = 2;
  const TokenRules rules(request, kVocab);
  const std::vector<TokenId> tokens = {5, 6, 7};
  EXPECT_TRUE(rules.apply_to(tokens, 1));
  EXPECT_EQ(allowed_behind(request, tokens, 0), all_but({0, 33}));
  EXPECT_EQ(allowed_behind(request, tokens, 1), all_but({0, 33}));
  EXPECT_FALSE(rules.apply_to(tokens, 2)) << "and then they may, without a mask";
}

TEST(TokenRules, AgreeWithTheConstraint) {
  Request request;
  request.allowed_tokens = {1, 2, 3, 4};
  request.bad_words = {{2}};
  FixedConstraint constraint({2, 3, 4, 5});
  EXPECT_THAT(allowed_behind(request, {9}, 0, &constraint), ElementsAre(3, 4));
}

TEST(TokenRules, MinTokensGivesWayWhereTheConstraintMustEnd) {
  Request request;
  request.stop_tokens = {1, 2};
  request.min_tokens = 5;
  FixedConstraint may_end({1, 2, 7});
  EXPECT_THAT(allowed_behind(request, {9}, 0, &may_end), ElementsAre(7)) << "it need not end yet";
  FixedConstraint must_end({1, 2});
  EXPECT_THAT(allowed_behind(request, {9}, 0, &must_end), ElementsAre(1, 2));
  request.bad_words = {{7}, {2}};
  EXPECT_THAT(allowed_behind(request, {9}, 0, &may_end), ElementsAre(1)) << "what another rule bans stays banned";
}

TEST(TokenRules, SayWhenNothingMayCome) {
  Request request;
  request.allowed_tokens = {4};
  request.bad_words = {{3, 4}};
  EXPECT_THAT(allowed_behind(request, {3}, 0), IsEmpty());
  EXPECT_THAT(allowed_behind(request, {4}, 0), ElementsAre(4));
  FixedConstraint other({5});
  EXPECT_THAT(allowed_behind(request, {4}, 0, &other), IsEmpty());
  request = {};
  request.allowed_tokens = {4};
  request.stop_tokens = {4};
  request.min_tokens = 1;
  EXPECT_THAT(allowed_behind(request, {3}, 0), IsEmpty()) << "without a constraint min_tokens does not give way";
}

TEST(TokenRules, AreCheckedAtSubmit) {
  Harness harness;
  const auto refused = [&](auto change, const std::string& message) {
    Request request = make_request(1, make_prompt(3), 4);
    change(request);
    const Status status = harness.submit(std::move(request));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  refused([](Request& r) { r.allowed_tokens = {3, 50}; }, "allowed_tokens holds token 50");
  refused([](Request& r) { r.allowed_tokens = {-1}; }, "allowed_tokens holds token -1");
  refused([](Request& r) { r.allowed_tokens = {5, 4}; }, "must ascend");
  refused([](Request& r) { r.allowed_tokens = {5, 5}; }, "must ascend");
  refused([](Request& r) { r.allowed_tokens.resize(kMaxAllowedTokens + 1); }, "at most 262144");
  refused([](Request& r) { r.bad_words = {{1}, {}}; }, "no tokens");
  refused([](Request& r) { r.bad_words = {{1, 50}}; }, "bad_words holds token 50");
  refused([](Request& r) { r.bad_words.resize(kMaxBadWords + 1, {1}); }, "at most 1024");
  refused([](Request& r) { r.bad_words = {std::vector<TokenId>(kMaxBadWordTokens + 1)}; }, "at most 64");
  refused([](Request& r) { r.min_tokens = 5; }, "min_tokens is 5, but max_tokens is 4");
  EXPECT_TRUE(harness.scheduler.idle());
}

TEST(TokenRules, HoldForEverySequenceOfARequest) {
  Harness harness;
  Request request = make_request(1, make_prompt(6), 12);
  request.n = 3;
  request.allowed_tokens = {2, 3, 4, 6, 8, 9};
  request.bad_words = {{2, 3}, {8}};
  request.stop_tokens = {4};
  request.min_tokens = 5;
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");  // compares with the rules taken literally
  for (const auto& output : harness.track(1).outputs) {
    EXPECT_GE(output.size(), 5u);
    for (const TokenId token : output) EXPECT_THAT((std::vector<TokenId>{2, 3, 4, 6, 9}), testing::Contains(token));
  }
}

TEST(TokenRules, ARequestThatLeavesItselfNoTokenFailsAlone) {
  Harness harness;
  Request request = make_request(1, make_prompt(6), 12);
  request.allowed_tokens = {7};
  request.bad_words = {{7, 7, 7}};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  ASSERT_TRUE(harness.submit(make_request(2, make_prompt(9, 3), 12)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_THAT(harness.track(1).outputs[0], ElementsAre(7, 7));
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFailed);
  EXPECT_EQ(harness.track(1).error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(harness.track(1).error.message(), HasSubstr("leave no token that may come next"));
  EXPECT_EQ(harness.track(2).outcome, Outcome::kFinished);
}

TEST(TokenRules, AConflictWithTheConstraintNamesBoth) {
  Harness harness;
  Request request = make_request(1, make_prompt(6), 12);
  request.constraints.push_back(std::make_unique<EvenConstraint>());
  request.allowed_tokens = {7, 9};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  harness.run();
  EXPECT_EQ(harness.problem, "");
  EXPECT_THAT(harness.track(1).error.message(), HasSubstr("grammar and the request's other rules"));
}

TEST(TokenRules, ATokenThatTheMaskForbidsFailsItsRequest) {
  SimOptions machine = small_machine();
  machine.script = [](const SimRowView&) { return TokenId{5}; };  // a backend that looks at no mask
  Harness harness(small_limits(), std::move(machine));
  Request request = make_request(1, make_prompt(6), 12);
  request.bad_words = {{5}};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  while (harness.step()) {
  }
  EXPECT_EQ(harness.track(1).outcome, Outcome::kFailed);
  EXPECT_THAT(harness.track(1).error.message(), HasSubstr("token 5, which its mask does not allow"));
}

TEST(Masks, AreFilledBetweenSubmitAndWait) {
  Harness harness;
  Request request = make_request(1, make_prompt(6), 12);
  request.allowed_tokens = {7};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  const std::span<const uint32_t> mask = harness.plan.rows[0].mask;
  ASSERT_EQ(mask.size(), 2u) << "the place is there before the bits";
  EXPECT_EQ(mask[0], 0u);
  ASSERT_TRUE(harness.backend->submit(harness.plan).ok());
  harness.scheduler.fill_masks(harness.plan);
  EXPECT_EQ(mask[0], 1u << 7);
  ASSERT_TRUE(harness.backend->wait(harness.result).ok());
  EXPECT_EQ(harness.result.rows[0].token, 7);
}

TEST(Masks, AreNotForgotten) {
  Harness harness;
  Request request = make_request(1, make_prompt(6), 12);
  request.allowed_tokens = {7};
  ASSERT_TRUE(harness.submit(std::move(request)).ok());
  StepCounts counts;
  harness.scheduler.schedule(0, harness.plan, counts);
  StepResult result;
  result.rows.resize(1);
  std::vector<Event> events;
  EXPECT_DEATH(harness.scheduler.commit(harness.plan, result, 0, events), "without fill_masks");
}

}  // namespace
}  // namespace twostroke::test
