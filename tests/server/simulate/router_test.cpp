#include "server/simulate/router.h"

#include <gtest/gtest.h>

namespace twostroke::simulate {
namespace {

std::vector<TokenRun> prompt(uint32_t length, uint64_t seed = 1) { return {{seed, length}}; }

TEST(Router, RoundRobinTakesTurnsWhateverHappens) {
  Router router(RouterPolicy::kRoundRobin, {1000, 1000, 1000});
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(router.choose(prompt(i == 0 ? 900 : 1)).replica, i % 3);
}

TEST(Router, LeastLoadedTakesTheOneWithTheFewestRequests) {
  Router router(RouterPolicy::kLeastLoaded, {1000, 1000});
  const Router::Choice first = router.choose(prompt(10));
  EXPECT_EQ(router.choose(prompt(10)).replica, 1u);
  const Router::Choice third = router.choose(prompt(10));
  EXPECT_EQ(third.replica, 0u);
  EXPECT_EQ(router.choose(prompt(10)).replica, 1u);
  router.prompt_done(first);
  router.ended(first);
  EXPECT_EQ(router.choose(prompt(10)).replica, 0u);
}

TEST(Router, LeastLoadedBreaksTiesByPromptTokensThatStillWait) {
  Router router(RouterPolicy::kLeastLoaded, {1000, 1000});
  const Router::Choice first = router.choose(prompt(500));
  const Router::Choice second = router.choose(prompt(10));
  EXPECT_EQ(router.choose(prompt(10)).replica, 1u);
  router.prompt_done(first);
  router.prompt_done(second);
  EXPECT_EQ(router.choose(prompt(10)).replica, 0u);
}

TEST(Router, PrefixAwareGoesWhereThePrefixIsUnlessThatIsTooBusy) {
  Router router(RouterPolicy::kPrefixAware, {100'000, 100'000});
  const std::vector<TokenRun> first = {{7, 600}, {8, 100}};
  const Router::Choice choice = router.choose(first);
  EXPECT_EQ(choice.waiting_tokens, 700u);
  router.prompt_done(choice);
  const Router::Choice hit = router.choose({{7, 600}, {9, 100}});
  EXPECT_EQ(hit.replica, choice.replica);
  EXPECT_EQ(hit.waiting_tokens, 100u);
  EXPECT_NE(router.choose({{1, 600}, {8, 100}}).replica, choice.replica);
  // More work stands before it there than the prefix saves.
  for (uint64_t i = 0; i < 4; ++i) router.choose({{7, 600}, {20 + i, 300}});
  EXPECT_NE(router.choose({{7, 600}, {30, 10}}).replica, choice.replica);
}

TEST(Router, PrefixAwareForgetsWhatNoLongerFits) {
  Router router(RouterPolicy::kPrefixAware, {1000});
  router.choose({{1, 400}, {2, 400}});
  EXPECT_EQ(router.choose({{1, 400}, {2, 400}}).waiting_tokens, 0u);
  router.choose({{3, 400}});  // the tail of the first goes, not its head
  EXPECT_EQ(router.choose({{1, 400}, {5, 1}}).waiting_tokens, 1u);
  EXPECT_EQ(router.choose({{1, 400}, {2, 400}}).waiting_tokens, 400u);
}

TEST(Router, NamesAreThoseOfTheFlag) {
  for (const RouterPolicy policy :
       {RouterPolicy::kRoundRobin, RouterPolicy::kLeastLoaded, RouterPolicy::kPrefixAware}) {
    EXPECT_EQ(parse_router(router_name(policy)), policy);
  }
  EXPECT_EQ(parse_router("random"), std::nullopt);
}

}  // namespace
}  // namespace twostroke::simulate
