#include "server/ops/logging.h"

#include <gtest/gtest.h>

namespace twostroke {
namespace {

TEST(LogText, CannotEndItsLineOrItsField) {
  EXPECT_EQ(log_text("a\nb\r\x1b[2J\x7f"), "a\\u000ab\\u000d\\u001b[2J\\u007f");
  EXPECT_EQ(log_text("say \"hi\" \\o/"), "say \\\"hi\\\" \\\\o/");
  EXPECT_EQ(log_text("héllo"), "héllo");
  EXPECT_EQ(log_text("\xc2\x9b[2J \xc2\xa0 \xc2"), "\\u009b[2J \xc2\xa0 \xc2") << "terminals take U+009B for ESC [";
}

TEST(LogText, IsCut) {
  EXPECT_EQ(log_text(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(log_text(std::string(201, 'x')), std::string(200, 'x') + "...");
}

}  // namespace
}  // namespace twostroke
