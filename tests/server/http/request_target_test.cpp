#include "server/http/request_target.h"

#include <gtest/gtest.h>

namespace twostroke::http {
namespace {

TEST(RequestTarget, SplitsPathAndQueryAndDecodesThePathOnly) {
  const auto target = parse_request_target("/a%20b/%C3%A9+c?q=%20&r=?");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->path, "/a b/\u00e9+c");
  EXPECT_EQ(target->query, "q=%20&r=?");
}

TEST(RequestTarget, TakesTheAbsoluteForm) {
  const auto target = parse_request_target("HTTP://example.org:8000/v1/models?x");
  ASSERT_TRUE(target.ok());
  EXPECT_EQ(target->path, "/v1/models");
  EXPECT_EQ(target->query, "x");
  EXPECT_EQ(parse_request_target("http://example.org")->path, "/");
  EXPECT_EQ(parse_request_target("http://example.org?q")->query, "q");
}

TEST(RequestTarget, TakesTheAsterisk) { EXPECT_EQ(parse_request_target("*")->path, "*"); }

TEST(RequestTarget, RefusesWhatHasNoMeaningHere) {
  for (const char* target : {"", "?q", "a/b", "example.org:443", "/a#b", "/%", "/%4", "/%zz", "/%4g", "/a%00b",
                             "/a%0d%0aX: y", "/%7f", "ftp://example.org/"}) {
    EXPECT_FALSE(parse_request_target(target).ok()) << target;
  }
}

}  // namespace
}  // namespace twostroke::http
