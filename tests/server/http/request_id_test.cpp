#include "server/http/request_id.h"

#include <gtest/gtest.h>

#include <set>

namespace twostroke::http {
namespace {

TEST(RequestId, TakesShortPrintableIdsOfClients) {
  EXPECT_TRUE(usable_request_id("a-B_9.:/"));
  EXPECT_TRUE(usable_request_id(std::string(kRequestIdBytesMax, 'x')));
}

TEST(RequestId, RefusesWhatCouldBreakAHeaderJsonOrALogLine) {
  EXPECT_FALSE(usable_request_id(""));
  EXPECT_FALSE(usable_request_id(std::string(kRequestIdBytesMax + 1, 'x')));
  for (const char* id : {"a b", "a\r\nb", "a\"b", "a\\b", "a\x7f", "\u00e9"}) EXPECT_FALSE(usable_request_id(id)) << id;
}

TEST(RequestId, GeneratedOnesAreUsableAndDiffer) {
  RequestIds ids;
  RequestIds of_another_process;
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    for (RequestIds* source : {&ids, &of_another_process}) {
      const std::string id = source->next();
      EXPECT_TRUE(usable_request_id(id)) << id;
      EXPECT_TRUE(seen.insert(id).second) << id;
    }
  }
}

}  // namespace
}  // namespace twostroke::http
