#include "server/http/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/http/server.h"

namespace twostroke::http {
namespace {

using testing::HasSubstr;
using Stage = RequestParser::Stage;

HttpLimits small_limits() {
  HttpLimits limits;
  limits.header_bytes_max = 400;
  limits.header_count_max = 8;
  limits.body_bytes_max = 50;
  return limits;
}

struct Parsed {
  Stage stage = Stage::kHeader;
  int status = 0;  // of the rejection
  HttpRequest request;
  bool keep_alive = false;
  std::string rest;
};

// Offers `bytes` as a connection does, cut at the given ascending places.
Parsed parse(const std::string& bytes, const std::vector<size_t>& cuts = {},
             const HttpLimits& limits = small_limits()) {
  RequestParser parser(limits);
  size_t begin = 0;
  const auto offer = [&](size_t end) {
    size_t consumed = 1;
    while (consumed > 0) {
      consumed = parser.feed(std::string_view(bytes).substr(begin, end - begin));
      begin += consumed;
    }
  };
  for (const size_t cut : cuts) offer(cut);
  offer(bytes.size());

  Parsed parsed;
  parsed.stage = parser.stage();
  parsed.keep_alive = parser.keep_alive();
  parsed.rest = bytes.substr(begin);
  if (parsed.stage == Stage::kRejected) parsed.status = parser.rejection().status;
  if (parsed.stage == Stage::kComplete) parsed.request = parser.take();
  return parsed;
}

int status_of(const std::string& bytes) {
  const Parsed parsed = parse(bytes);
  return parsed.stage == Stage::kComplete ? 200 : parsed.status;
}

std::string get_root(const std::string& headers) { return "GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"; }
std::string post(const std::string& headers, const std::string& body) {
  return "POST /p HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body;
}

TEST(RequestParser, ReadsARequest) {
  const Parsed parsed =
      parse("POST /a%20b?q=1 HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\nContent-Length: 3\r\n\r\nabcGET /");
  ASSERT_EQ(parsed.stage, Stage::kComplete);
  EXPECT_EQ(parsed.request.method, "POST");
  EXPECT_EQ(parsed.request.path, "/a b");
  EXPECT_EQ(parsed.request.query, "q=1");
  EXPECT_EQ(parsed.request.header("X-TWO"), "1");
  EXPECT_EQ(parsed.request.headers.size(), 4u);
  EXPECT_EQ(parsed.request.body, "abc");
  EXPECT_TRUE(parsed.keep_alive);
  EXPECT_EQ(parsed.rest, "GET /");
}

TEST(RequestParser, ReadsAChunkedBody) {
  const Parsed parsed =
      parse(post("Transfer-Encoding: Chunked\r\n", "3\r\nabc\r\n2;x\r\nde\r\n0\r\nHost: evil\r\n\r\n"));
  ASSERT_EQ(parsed.stage, Stage::kComplete);
  EXPECT_EQ(parsed.request.body, "abcde");
  EXPECT_EQ(parsed.request.header("Host"), "x");
  EXPECT_EQ(parsed.request.headers.size(), 2u) << "trailers are not headers";
}

TEST(RequestParser, EveryCutGivesTheSameRequest) {
  const std::string bytes =
      "\r\n\r\n" + post("Transfer-Encoding: chunked\r\nX-A: b\r\n", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n") +
      get_root("");
  const Parsed whole = parse(bytes);
  ASSERT_EQ(whole.stage, Stage::kComplete);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      const Parsed parsed = parse(bytes, {first, second});
      ASSERT_EQ(parsed.stage, Stage::kComplete) << first << ", " << second;
      ASSERT_EQ(parsed.request.body, whole.request.body) << first << ", " << second;
      ASSERT_EQ(parsed.request.headers, whole.request.headers) << first << ", " << second;
      ASSERT_EQ(parsed.rest, whole.rest) << first << ", " << second;
    }
  }
}

TEST(RequestParser, EveryCutGivesTheSameRejection) {
  for (const std::string& bytes :
       {get_root("X-Long: " + std::string(400, 'x') + "\r\n"),
        get_root("A: 1\r\nA: 2\r\nA: 3\r\nA: 4\r\nA: 5\r\nA: 6\r\nA: 7\r\nA: 8\r\n"),
        post("Content-Length: 51\r\n", ""),
        post("Transfer-Encoding: chunked\r\n", "1e\r\n" + std::string(30, 'x') + "\r\n1e\r\n"),
        post("Transfer-Encoding: chunked\r\n", "-2\r\nabc"), get_root("Bad Name: 1\r\n"), get_root("X: 1\n"),
        std::string("GET / HTTP/3.0\r\n\r\n"), std::string("\x16\x03\x01\x02")}) {
    const Parsed whole = parse(bytes);
    ASSERT_EQ(whole.stage, Stage::kRejected) << bytes;
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      const Parsed parsed = parse(bytes, {cut});
      ASSERT_EQ(parsed.stage, Stage::kRejected) << cut << " of " << bytes;
      ASSERT_EQ(parsed.status, whole.status) << cut << " of " << bytes;
    }
  }
}

TEST(RequestParser, RefusesAmbiguousFraming) {
  EXPECT_EQ(status_of(post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")), 400);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n")), 400);
  EXPECT_EQ(status_of(post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd")), 400);
  EXPECT_EQ(status_of(post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")), 400);
  EXPECT_EQ(status_of(post("Content-Length: 3, 3\r\n", "abc")), 400);
  for (const char* length : {"", "+3", "-3", "0x3", "3 3", "3a", "99999999999999999999999"}) {
    EXPECT_EQ(status_of(post("Content-Length: " + std::string(length) + "\r\n", "abc")), 400) << length;
  }
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")), 400);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400);
  EXPECT_EQ(status_of(post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n")), 400);
}

TEST(RequestParser, RefusesTransferCodingsItDoesNotKnow) {
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, gzip", "xchunked", "identity"}) {
    EXPECT_EQ(status_of(post("Transfer-Encoding: " + std::string(coding) + "\r\n", "0\r\n\r\n")), 501) << coding;
  }
}

TEST(RequestParser, NeedsExactlyOneHost) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 200);
}

TEST(RequestParser, RefusesMalformedHeaders) {
  for (const std::string& bytes :
       {std::string("GET\r\n\r\n"), std::string("GET / \r\n\r\n"), std::string(" GET / HTTP/1.1\r\n\r\n"),
        std::string("GET / HTTP/1.1\nHost: x\n\n"), std::string("GET / HTTP/1.x\r\nHost: x\r\n\r\n"),
        std::string("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("{\"json\": 1}"), get_root("NoColon\r\n"),
        get_root(": 1\r\n"), get_root("A\x01: 1\r\n"), get_root("A: \x01\r\n"), get_root(std::string("A: x\0y\r\n", 8)),
        std::string("GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n"), std::string("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n")}) {
    EXPECT_EQ(status_of(bytes), 400) << bytes;
  }
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
}

TEST(RequestParser, LimitsTheHeadersBytesAlsoWhenTheyComeFieldByField) {
  std::string bytes = "GET / HTTP/1.1\r\nHost: x\r\n";
  std::vector<size_t> cuts;
  while (bytes.size() < 500) {
    bytes += "A: 0123456789\r\n";
    cuts.push_back(bytes.size());
  }
  EXPECT_EQ(parse(bytes, cuts).status, 431);
}

TEST(RequestParser, TakesAHeaderOfExactlyTheLimit) {
  const std::string shorter = get_root("X: \r\n");
  EXPECT_EQ(status_of(get_root("X: " + std::string(400 - shorter.size(), 'x') + "\r\n")), 200);
  EXPECT_EQ(status_of(get_root("X: " + std::string(401 - shorter.size(), 'x') + "\r\n")), 431);
}

TEST(RequestParser, LimitsTheCountOfFields) {
  std::string headers;
  for (int i = 0; i < 7; ++i) headers += "A: 1\r\n";
  EXPECT_EQ(status_of(get_root(headers)), 200);
  EXPECT_EQ(status_of(get_root(headers + "A: 1\r\n")), 431);
}

TEST(RequestParser, LimitsTheBodyBeforeItArrives) {
  EXPECT_EQ(status_of(post("Content-Length: 50\r\n", std::string(50, 'x'))), 200);
  EXPECT_EQ(status_of(post("Content-Length: 51\r\n", "")), 413);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\n", "33\r\n")), 413);
}

TEST(RequestParser, KnowsWhoKeepsTheConnection) {
  EXPECT_TRUE(parse(get_root("")).keep_alive);
  EXPECT_FALSE(parse(get_root("Connection: close\r\n")).keep_alive);
  EXPECT_FALSE(parse("GET / HTTP/1.0\r\n\r\n").keep_alive);
  EXPECT_TRUE(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
}

TEST(RequestParser, MeetsOneExpectation) {
  const HttpLimits limits = small_limits();
  RequestParser parser(limits);
  parser.feed(post("Content-Length: 3\r\nExpect: 100-Continue\r\n", ""));
  EXPECT_EQ(parser.stage(), Stage::kBody);
  EXPECT_TRUE(parser.expects_continue());
  EXPECT_EQ(status_of(get_root("Expect: the-unexpected\r\n")), 417);
}

TEST(RequestParser, RejectionsAreJsonThatNamesTheFault) {
  const HttpLimits limits = small_limits();
  RequestParser parser(limits);
  parser.feed(post("Content-Length: 51\r\n", ""));
  ASSERT_EQ(parser.stage(), Stage::kRejected);
  EXPECT_THAT(parser.rejection().message, HasSubstr("50 bytes"));
  EXPECT_EQ(parser.rejection().code, "request_too_large");
}

// Bytes that look like HTTP often enough to reach every branch.
std::string random_bytes(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"GET ",
                                                   "POST ",
                                                   "/",
                                                   "/%41",
                                                   "%",
                                                   " HTTP/1.1\r\n",
                                                   " HTTP/1.0\r\n",
                                                   "Host: x\r\n",
                                                   "Content-Length: ",
                                                   "3",
                                                   "50",
                                                   "Transfer-Encoding: chunked\r\n",
                                                   "\r\n",
                                                   "\r\n\r\n",
                                                   "\n",
                                                   "\r",
                                                   "0\r\n\r\n",
                                                   "3\r\nabc\r\n",
                                                   ": ",
                                                   "Expect: 100-continue\r\n",
                                                   "Connection: close\r\n",
                                                   "-2",
                                                   "fffffffffffffffff",
                                                   ";",
                                                   ",",
                                                   " ",
                                                   "\t",
                                                   std::string(1, '\0'),
                                                   "\xff",
                                                   "x"};
  std::string bytes;
  const size_t count = random() % 24;
  for (size_t i = 0; i < count; ++i) {
    if (random() % 8 == 0) {
      bytes += static_cast<char>(random());
    } else {
      bytes += kPieces[random() % kPieces.size()];
    }
  }
  return bytes;
}

TEST(RequestParser, AnyBytesInAnyPiecesHaveOneOutcome) {
  const unsigned seed = 20240601;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int complete = 0;
  int rejected = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = random_bytes(random);
    if (i % 2 == 0) bytes = "POST / HTTP/1.1\r\nHost: x\r\n" + bytes;
    const Parsed whole = parse(bytes);
    std::vector<size_t> cuts;
    for (size_t cut = 0; cut < bytes.size(); cut += 1 + random() % 5) cuts.push_back(cut);
    const Parsed pieces = parse(bytes, cuts);
    ASSERT_EQ(pieces.stage, whole.stage) << testing::PrintToString(bytes);
    ASSERT_EQ(pieces.status, whole.status) << testing::PrintToString(bytes);
    ASSERT_EQ(pieces.request.body, whole.request.body) << testing::PrintToString(bytes);
    complete += whole.stage == Stage::kComplete;
    rejected += whole.stage == Stage::kRejected;
  }
  EXPECT_GT(complete, 100);
  EXPECT_GT(rejected, 1000);
}

}  // namespace
}  // namespace twostroke::http
