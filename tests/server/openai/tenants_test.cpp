#include "server/openai/tenants.h"

#include <gtest/gtest.h>

namespace twostroke::openai {
namespace {

TEST(Tenants, AreTheApiKeyWhereThereIsOneElseTheUser) {
  EXPECT_EQ(Tenants::id_of(7, "anna"), 7u) << "a client cannot leave its key's tenant";
  EXPECT_EQ(Tenants::id_of(7, ""), 7u);
  EXPECT_EQ(Tenants::id_of(0, ""), 0u);
  EXPECT_NE(Tenants::id_of(0, "anna"), 0u);
  EXPECT_EQ(Tenants::id_of(0, "anna"), Tenants::id_of(0, "anna"));
  EXPECT_NE(Tenants::id_of(0, "anna"), Tenants::id_of(0, "bert"));
}

TEST(Tenants, WeighOneUnlessSaidOtherwise) {
  Tenants tenants;
  tenants.set_weight(Tenants::id_of(0, "anna"), 3);
  Request request;
  tenants.mark(request, Tenants::id_of(0, "anna"));
  EXPECT_EQ(request.tenant, Tenants::id_of(0, "anna"));
  EXPECT_EQ(request.tenant_weight, 3);
  Request other;
  tenants.mark(other, 9);
  EXPECT_EQ(other.tenant_weight, 1);
}

}  // namespace
}  // namespace twostroke::openai
