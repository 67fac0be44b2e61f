#include "server/openai/cache_salt.h"

#include <gtest/gtest.h>

#include <set>

namespace twostroke::openai {
namespace {

TEST(CacheSalt, OnlyThoseWithNeitherKeyNorSaltShare) {
  EXPECT_EQ(cache_salt(0, ""), 0U);
  std::set<uint64_t> salts = {0};
  for (const uint64_t tenant : {0, 1, 2}) {
    for (const char* own : {"", "a", "b", "ab"}) salts.insert(cache_salt(tenant, own));
  }
  EXPECT_EQ(salts.size(), 12U) << "each tenant and each salt has a cache of its own";
}

TEST(CacheSalt, IsTheSameForTheSameTenantAndSalt) {
  EXPECT_EQ(cache_salt(7, "a"), cache_salt(7, "a"));
  EXPECT_EQ(cache_salt(7, ""), cache_salt(7, ""));
}

}  // namespace
}  // namespace twostroke::openai
