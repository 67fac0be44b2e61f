#include <gtest/gtest.h>

#include "server/http/server.h"

namespace twostroke::http {
namespace {

Handler handler() {
  return [](Exchange&) -> boost::asio::awaitable<void> { co_return; };
}

Router example() {
  Router router;
  router.add("GET", "/", handler());
  router.add("GET", "/v1/models", handler());
  router.add("GET", "/v1/models/{model...}", handler());
  router.add("POST", "/v1/chat/completions", handler());
  router.add("GET", "/items/{id}/parts/{part}", handler());
  router.add("DELETE", "/items/{id}/parts/{part}", handler());
  return router;
}

TEST(Router, FindsLiteralPaths) {
  const Router router = example();
  EXPECT_EQ(router.match("GET", "/").pattern, "/");
  EXPECT_EQ(router.match("GET", "/v1/models").pattern, "/v1/models");
  EXPECT_NE(router.match("POST", "/v1/chat/completions").handler, nullptr);
}

TEST(Router, PlaceholdersMatchOneSegmentThatIsNotEmpty) {
  const Router router = example();
  const Router::Match match = router.match("GET", "/items/a b/parts/7");
  EXPECT_EQ(match.pattern, "/items/{id}/parts/{part}");
  EXPECT_EQ(match.path_args, (std::vector<std::string>{"a b", "7"}));
  EXPECT_EQ(router.match("GET", "/items//parts/7").handler, nullptr);
  EXPECT_EQ(router.match("GET", "/items/a/b/parts/7").handler, nullptr);
}

TEST(Router, ARestPlaceholderMatchesSlashesToo) {
  const Router router = example();
  EXPECT_EQ(router.match("GET", "/v1/models/org/name").path_args, std::vector<std::string>{"org/name"});
  EXPECT_EQ(router.match("GET", "/v1/models/name").path_args, std::vector<std::string>{"name"});
  EXPECT_EQ(router.match("GET", "/v1/models/").handler, nullptr);
}

TEST(Router, UnknownPathsMatchNothingAndAllowNothing) {
  const Router router = example();
  for (const char* path : {"", "*", "/v1", "/v1/", "/v1/models2", "//", "/V1/models", "/v1/chat/completions/"}) {
    const Router::Match match = router.match("GET", path);
    EXPECT_EQ(match.handler, nullptr) << path;
    EXPECT_EQ(match.allow, "") << path;
  }
}

TEST(Router, AWrongMethodNamesTheRightOnes) {
  const Router router = example();
  const Router::Match match = router.match("PUT", "/items/1/parts/2");
  EXPECT_EQ(match.handler, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, DELETE");
  EXPECT_EQ(router.match("get", "/v1/models").allow, "GET, HEAD");
}

TEST(Router, GetRoutesAnswerHead) {
  const Router router = example();
  EXPECT_NE(router.match("HEAD", "/v1/models").handler, nullptr);
  EXPECT_EQ(router.match("HEAD", "/v1/chat/completions").handler, nullptr);
}

TEST(Router, ListsItsRoutesInTheirOrder) {
  Router router;
  router.add("GET", "/b", handler());
  router.add("POST", "/a/{x}", handler());
  EXPECT_EQ(router.names(), (std::vector<std::string>{"GET /b", "POST /a/{x}"}));
}

TEST(Router, OnlyRoutesThatAreMarkedAreOpen) {
  Router router;
  router.add("GET", "/a", handler(), RouteAccess::kOpen);
  router.add("GET", "/b", handler());
  EXPECT_EQ(router.match("GET", "/a").access, RouteAccess::kOpen);
  EXPECT_EQ(router.match("GET", "/b").access, RouteAccess::kKeyed);
  EXPECT_EQ(router.match("POST", "/a").access, RouteAccess::kKeyed);
  EXPECT_EQ(router.match("GET", "/c").access, RouteAccess::kKeyed);
}

TEST(Router, TheRouteAddedFirstWins) {
  Router router;
  router.add("GET", "/a/{x}", handler());
  router.add("GET", "/a/b", handler());
  EXPECT_EQ(router.match("GET", "/a/b").pattern, "/a/{x}");
}

}  // namespace
}  // namespace twostroke::http
