#include "server/http/error_body.h"

#include <gtest/gtest.h>

namespace twostroke::http {
namespace {

TEST(ErrorBody, HasAllFourKeysAndNullsWhatIsEmpty) {
  EXPECT_EQ(error_body("no", kServerError, "", ""),
            R"({"error":{"message":"no","type":"server_error","param":null,"code":null}})");
  EXPECT_EQ(error_body("no", kInvalidRequestError, "n", "bad"),
            R"({"error":{"message":"no","type":"invalid_request_error","param":"n","code":"bad"}})");
}

TEST(ErrorBody, ResponseCarriesTheStatusAndJson) {
  const HttpResponse response = error_response(429, "later", kServerError);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body, error_body("later", kServerError, "", ""));
}

TEST(JsonString, EscapesQuotesBackslashesAndEveryControlCharacter) {
  EXPECT_EQ(json_string("a\"b\\c\n\r\t"), R"("a\"b\\c\n\r\t")");
  EXPECT_EQ(json_string(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
}

TEST(JsonString, KeepsWellFormedUtf8) {
  const std::string text = "\u00e9\u20ac\U0001F600\U0010FFFF";
  EXPECT_EQ(json_string(text), "\"" + text + "\"");
}

TEST(JsonString, ReplacesEachByteThatIsNotUtf8) {
  const std::string replacement = "\xef\xbf\xbd";
  EXPECT_EQ(json_string("a\xff"
                        "b"),
            "\"a" + replacement + "b\"");
  EXPECT_EQ(json_string("\xc3"), "\"" + replacement + "\"");                                      // cut off
  EXPECT_EQ(json_string("\xc0\x80"), "\"" + replacement + replacement + "\"");                    // overlong
  EXPECT_EQ(json_string("\xed\xa0\x80"), "\"" + replacement + replacement + replacement + "\"");  // a surrogate
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"),
            "\"" + replacement + replacement + replacement + replacement + "\"");  // beyond U+10FFFF
}

}  // namespace
}  // namespace twostroke::http
