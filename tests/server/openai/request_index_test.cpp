#include "server/openai/request_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/openai/query.h"

namespace twostroke::openai {
namespace {

using testing::HasSubstr;

std::shared_ptr<const CallName> name_of(const std::string& id, const std::string& request_id = "r") {
  return std::make_shared<const CallName>(CallName{.id = id, .request_id = request_id, .endpoint = "/v1/completions"});
}

Event end_of(RequestId request, uint32_t output_tokens = 1) {
  Event event;
  event.kind = Event::Kind::kEnded;
  event.request = request;
  event.summary.output_tokens = output_tokens;
  return event;
}

TEST(RequestIndex, FindsACallWithAllItsPromptsByEitherName) {
  RequestIndex index;
  const auto name = name_of("cmpl-1", "mine");
  index.add(1, name);
  index.add(3, name);
  index.add(2, name_of("cmpl-2", "other"));
  for (const char* known : {"cmpl-1", "mine"}) {
    const auto call = index.find(known);
    ASSERT_TRUE(call.has_value()) << known;
    ASSERT_EQ(call->parts.size(), 2u);
    EXPECT_EQ(call->parts[0].request, 1u);
    EXPECT_EQ(call->parts[1].request, 3u);
    EXPECT_FALSE(call->parts[0].end.has_value());
  }
  EXPECT_FALSE(index.find("cmpl-").has_value());
  EXPECT_FALSE(index.find("").has_value());
}

TEST(RequestIndex, KeepsTheSummaryOfWhatHasEnded) {
  RequestIndex index;
  const auto name = name_of("cmpl-1");
  index.add(1, name);
  index.add(2, name);
  index.observe(std::vector<Event>{end_of(1, 7)});
  const auto call = index.find("cmpl-1");
  EXPECT_EQ(call->parts[0].end->summary.output_tokens, 7u);
  EXPECT_FALSE(call->parts[1].end.has_value());
  ASSERT_EQ(index.live(10).size(), 1u);
  EXPECT_EQ(index.live(10)[0].parts.size(), 1u) << "the part that has not ended";
  index.observe(std::vector<Event>{end_of(2)});
  EXPECT_TRUE(index.live(10).empty());
  EXPECT_EQ(index.live_requests(), 0u);
  EXPECT_TRUE(index.find("cmpl-1").has_value());
}

TEST(RequestIndex, KeepsSoManyOfThemAndNoMore) {
  RequestIndex index;
  for (RequestId id = 1; id <= RequestIndex::kEndedMax + 1; ++id) {
    index.add(id, name_of("cmpl-" + std::to_string(id)));
    index.observe(std::vector<Event>{end_of(id)});
  }
  EXPECT_FALSE(index.find("cmpl-1").has_value());
  EXPECT_TRUE(index.find("cmpl-2").has_value());
}

TEST(RequestIndex, WhatWasRefusedNeverWas) {
  RequestIndex index;
  index.add(1, name_of("cmpl-1"));
  index.refused(1);
  EXPECT_FALSE(index.find("cmpl-1").has_value());
  EXPECT_EQ(index.live_requests(), 0u);
}

TEST(RequestIndex, OfANameThatIsUsedAgainTheLatestCallIsMeant) {
  RequestIndex index;
  index.add(1, name_of("cmpl-1", "again"));
  index.add(2, name_of("cmpl-2", "again"));
  EXPECT_EQ(index.find("again")->name.id, "cmpl-2");
  index.observe(std::vector<Event>{end_of(2)});
  EXPECT_EQ(index.find("again")->name.id, "cmpl-2") << "also where it has ended before an older one";
}

TEST(RequestIndex, ListsCallsInTheirOrderAndNoMoreThanAskedFor) {
  RequestIndex index;
  const auto first = name_of("cmpl-1");
  index.add(1, first);
  index.add(2, name_of("cmpl-2"));
  index.add(3, first);
  index.add(4, name_of("cmpl-3"));
  index.add(5, first);
  const auto calls = index.live(2);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].name.id, "cmpl-1");
  EXPECT_EQ(calls[0].parts.size(), 3u);
  EXPECT_EQ(calls[1].name.id, "cmpl-2");
}

TEST(Query, ACountIsANumberWithinItsBounds) {
  const auto count = [](const char* query) { return query_count(query, "last", 100, 1000); };
  EXPECT_EQ(std::get<size_t>(count("")), 100u);
  EXPECT_EQ(std::get<size_t>(count("first=2")), 100u);
  EXPECT_EQ(std::get<size_t>(count("a=1&last=7")), 7u);
  EXPECT_EQ(std::get<size_t>(count("last=1000")), 1000u);
  for (const char* wrong : {"last=0", "last=1001", "last=-1", "last=1x", "last=99999999999999999999"}) {
    const auto result = count(wrong);
    ASSERT_TRUE(std::holds_alternative<ApiError>(result)) << wrong;
    EXPECT_THAT(std::get<ApiError>(result).message, HasSubstr("between 1 and 1000"));
  }
}

}  // namespace
}  // namespace twostroke::openai
