#include "server/http/response_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twostroke::http {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

HeadOptions example_options() {
  HeadOptions options;
  options.request_id = "req_1";
  options.now = std::chrono::system_clock::from_time_t(784111777);  // the example of RFC 9110, section 5.6.7
  return options;
}

TEST(ResponseHead, WritesStatusLengthDateAndRequestId) {
  HttpResponse response;
  response.body = "12345";
  EXPECT_EQ(response_head(response, example_options()),
            "HTTP/1.1 200 OK\r\nServer: twostroke\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Request-Id: req_1\r\n"
            "Content-Type: application/json\r\nContent-Length: 5\r\n\r\n");
}

TEST(ResponseHead, AHeadersValueCannotEndItsLine) {
  HttpResponse response;
  response.headers.emplace_back("X-Echo", "a\r\nSet-Cookie: x=1\r\n\r\nbody");
  response.headers.emplace_back("X-Nul", std::string("a\0b", 3));
  response.content_type = "text/plain\r\nX-Bad: 1";
  HeadOptions options = example_options();
  options.request_id = "r\nX-Bad: 2";
  const std::string head = response_head(response, options);
  EXPECT_THAT(head, HasSubstr("\r\nX-Echo: a  Set-Cookie: x=1    body\r\n"));
  EXPECT_THAT(head, HasSubstr("\r\nX-Nul: a b\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("\nX-Bad")));
  EXPECT_THAT(head, Not(HasSubstr("\nSet-Cookie")));
}

TEST(ResponseHead, FramingIsOneOfLengthChunksOrTheEnd) {
  HeadOptions options = example_options();
  options.framing = Framing::kChunked;
  EXPECT_THAT(response_head({}, options), HasSubstr("\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_THAT(response_head({}, options), Not(HasSubstr("Content-Length")));
  options.framing = Framing::kUntilClose;
  options.keep_alive = false;
  const std::string head = response_head({}, options);
  EXPECT_THAT(head, Not(HasSubstr("Transfer-Encoding")));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(head, HasSubstr("\r\nConnection: close\r\n"));
}

TEST(ResponseHead, AStatusWithoutABodyHasNoFraming) {
  HttpResponse response;
  response.status = 204;
  const std::string head = response_head(response, example_options());
  EXPECT_THAT(head, StartsWith("HTTP/1.1 204 No Content\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Content-")));
}

TEST(ResponseHead, EventStreamsAskProxiesNotToHoldEventsBack) {
  HttpResponse response;
  response.content_type = "text/event-stream; charset=utf-8";
  EXPECT_THAT(response_head(response, example_options()),
              HasSubstr("\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"));
  response.headers.emplace_back("cache-control", "no-store");
  const std::string head = response_head(response, example_options());
  EXPECT_THAT(head, HasSubstr("\r\ncache-control: no-store\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("no-cache")));
}

TEST(ResponseHead, OldClientsAreToldThatTheConnectionStaysOpen) {
  HeadOptions options = example_options();
  options.http_1_0 = true;
  EXPECT_THAT(response_head({}, options), HasSubstr("\r\nConnection: keep-alive\r\n"));
}

TEST(ResponseHeadDeathTest, HeadersThatTheServerSetsAreNotTheHandlersToSet) {
  HttpResponse response;
  response.headers.emplace_back("content-length", "7");
  EXPECT_DEATH(response_head(response, example_options()), "the server sets that header itself");
  response.headers = {{"X-A: b\r\nX-C", "d"}};
  EXPECT_DEATH(response_head(response, example_options()), "a header's name is a token");
}

}  // namespace
}  // namespace twostroke::http
