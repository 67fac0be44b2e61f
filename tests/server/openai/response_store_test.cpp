// What the server remembers of responses: bounded, for their tenants only.
#include "server/openai/responses/response_store.h"

#include <gtest/gtest.h>

namespace twostroke::openai {
namespace {

StoredResponse stored(const std::string& id, uint64_t tenant = 0, size_t body_bytes = 10) {
  return {.id = id, .tenant = tenant, .body = std::string(body_bytes, 'x'), .input_items = "[]", .messages = "[]"};
}

StoredResponse in_progress(const std::string& id) {
  StoredResponse response = stored(id);
  response.background = true;
  response.cancelled_body = "cancelled";
  return response;
}

TEST(ResponseStore, FindsWhatWasPutUntilItIsErased) {
  ResponseStore store;
  store.put(stored("a"));
  ASSERT_NE(store.find(0, "a"), nullptr);
  EXPECT_TRUE(store.erase(0, "a"));
  EXPECT_EQ(store.find(0, "a"), nullptr);
  EXPECT_FALSE(store.erase(0, "a"));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ResponseStore, ShowsAResponseToNoOtherTenant) {
  ResponseStore store;
  store.put(stored("a", 7));
  EXPECT_EQ(store.find(8, "a"), nullptr);
  EXPECT_FALSE(store.erase(8, "a"));
  EXPECT_EQ(store.cancel(8, "a"), nullptr);
  EXPECT_NE(store.find(7, "a"), nullptr);
}

TEST(ResponseStore, TheLeastRecentlyUsedOneMakesRoom) {
  ResponseStore store({.responses_max = 2});
  store.put(stored("a"));
  store.put(stored("b"));
  store.find(0, "a");
  store.put(stored("c"));
  EXPECT_NE(store.find(0, "a"), nullptr);
  EXPECT_EQ(store.find(0, "b"), nullptr);
  EXPECT_EQ(store.size(), 2U);
}

TEST(ResponseStore, BytesAreBoundedToo) {
  const size_t one = stored("a", 0, 1000).bytes();
  ResponseStore store({.bytes_max = 2 * one});
  for (const char* id : {"a", "b", "c"}) store.put(stored(id, 0, 1000));
  EXPECT_EQ(store.find(0, "a"), nullptr);
  EXPECT_EQ(store.bytes(), 2 * one);
  store.put(stored("d", 0, 3000));
  EXPECT_EQ(store.find(0, "d"), nullptr) << "larger than the store";
  EXPECT_EQ(store.size(), 2U) << "and nothing had to go for it";
}

TEST(ResponseStore, WhatRunsStaysAndIsFollowedByItsEnd) {
  ResponseStore store({.responses_max = 1, .running_max = 1});
  ASSERT_TRUE(store.begin(in_progress("run"), [] { FAIL() << "nobody cancelled it"; }));
  EXPECT_FALSE(store.begin(in_progress("second"), [] {})) << "one may run at a time";
  store.put(stored("a"));
  store.put(stored("b"));
  EXPECT_TRUE(store.find(0, "run")->running());
  store.end(stored("run"));
  EXPECT_FALSE(store.find(0, "run")->running());
  EXPECT_EQ(store.find(0, "b"), nullptr) << "it takes its place among the finished";
  EXPECT_TRUE(store.begin(in_progress("second"), [] {}));
}

TEST(ResponseStore, ACancelledOneStaysCancelled) {
  ResponseStore store;
  int cancelled = 0;
  ASSERT_TRUE(store.begin(in_progress("run"), [&] { ++cancelled; }));
  EXPECT_EQ(store.cancel(0, "run")->body, "cancelled");
  EXPECT_EQ(store.cancel(0, "run")->body, "cancelled");
  EXPECT_EQ(cancelled, 1);
  store.end(stored("run"));
  EXPECT_EQ(store.find(0, "run")->body, "cancelled") << "its end came too late";
}

TEST(ResponseStore, ErasingWhatRunsCancelsIt) {
  ResponseStore store;
  int cancelled = 0;
  ASSERT_TRUE(store.begin(in_progress("run"), [&] { ++cancelled; }));
  EXPECT_TRUE(store.erase(0, "run"));
  EXPECT_EQ(cancelled, 1);
  store.end(stored("run"));
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(store.bytes(), 0U);
}

}  // namespace
}  // namespace twostroke::openai
