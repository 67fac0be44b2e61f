// Requests, good and bad, against a live server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/server/http/test_client.h"
#include "tests/server/http/test_server.h"

namespace twostroke::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string post_echo(const std::string& headers, const std::string& body) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body;
}
std::string echo(const std::string& body) {
  return post_echo("Content-Length: " + std::to_string(body.size()) + "\r\n", body);
}

HttpLimits strict_limits() {
  HttpLimits limits;
  limits.header_bytes_max = 2048;
  limits.header_count_max = 20;
  limits.body_bytes_max = 100'000;
  return limits;
}

// Sends `bytes` and expects the answer to end the connection.
Answer refusal_of(TestServer& server, const std::string& bytes) {
  TestClient client(server.port());
  client.send(bytes);
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_THAT(answer.body, StartsWith("{\"error\":{\"message\":\""));
  EXPECT_EQ(client.read_to_close(), "");
  EXPECT_FALSE(client.was_reset());
  return answer;
}

TEST(HttpServer, AnswersAndNamesTheRequest) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/hello", "X-Request-Id: mine-1\r\n"));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.header("Content-Type"), "text/plain");
  EXPECT_EQ(answer.header("X-Request-Id"), "mine-1");
  EXPECT_NE(answer.header("Date"), "");
  client.send(get("/hello", "X-Request-Id: not printable\r\n"));
  EXPECT_THAT(client.read_answer().header("X-Request-Id"), StartsWith("req_"));
}

TEST(HttpServer, TellsWhoWatchesWhatWasAnswered) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/args/1/2/3?q", "X-Request-Id: a\r\n") + get("/nowhere"));
  AccessRecord record = server.wait_for_access(1);
  EXPECT_EQ(record.method, "GET");
  EXPECT_EQ(record.route, "/args/{a}/{b...}");
  EXPECT_EQ(record.remote, "127.0.0.1");
  EXPECT_EQ(record.request_id, "a");
  EXPECT_EQ(record.status, 200);
  EXPECT_FALSE(record.disconnected);
  record = server.wait_for_access(2);
  EXPECT_EQ(record.route, "");
  EXPECT_EQ(record.status, 404);
  EXPECT_EQ(server.http().exchanges(), 0u);
}

TEST(HttpServer, GivesHandlersDecodedArguments) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/args/a%20b/org/model%2Fx?q=%20"));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.body, "a b|org/model/x");
  EXPECT_EQ(answer.header("X-Args"), "q=%20");
}

TEST(HttpServer, UnknownPathsAndWrongMethodsKeepTheConnection) {
  TestServer server;
  TestClient client(server.port());
  client.send("POST /nowhere\xff HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(client.read_answer().status, 404);
  client.send(get("/echo"));
  Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.header("Allow"), "POST, OPTIONS");
  client.send(get("/hello"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpServer, HeadGetsTheHeadOfGet) {
  TestServer server;
  server.gate.open();
  TestClient client(server.port());
  for (const char* path : {"/hello", "/stream", "/nowhere"}) {
    client.send("HEAD " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  Answer answer = client.read_answer(true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Length"), "5");
  answer = client.read_answer(true);
  EXPECT_EQ(answer.header("Content-Type"), "text/event-stream");
  EXPECT_EQ(client.read_answer(true).status, 404);
  client.send(get("/hello"));
  EXPECT_EQ(client.read_answer().body, "hello") << "nothing of a body came between";
}

TEST(HttpServer, ServesAThousandRequestsOnOneConnection) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 1000; ++i) {
    const std::string body = "request " + std::to_string(i);
    client.send(echo(body));
    const Answer answer = client.read_answer();
    ASSERT_EQ(answer.status, 200);
    ASSERT_EQ(answer.body, body);
  }
  EXPECT_EQ(server.http().connections(), 1u);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  HttpLimits limits = strict_limits();
  limits.pipelined_bytes_max = 256;  // much less than what is sent ahead
  TestServer server(limits);
  TestClient client(server.port());
  std::string bytes = get("/wait");
  for (int i = 0; i < 200; ++i) bytes += echo("request " + std::to_string(i));
  client.send(bytes);
  ASSERT_TRUE(server.entered.wait_for(1));
  EXPECT_EQ(server.http().exchanges(), 1u);
  server.gate.open();
  EXPECT_EQ(client.read_answer().body, "waited");
  for (int i = 0; i < 200; ++i) ASSERT_EQ(client.read_answer().body, "request " + std::to_string(i));
}

TEST(HttpServer, ReadsChunkedBodies) {
  TestServer server;
  TestClient client(server.port());
  client.send(post_echo("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: 1\r\n\r\n") +
              get("/hello"));
  EXPECT_EQ(client.read_answer().body, "abcdefg");
  EXPECT_EQ(client.read_answer().body, "hello");
}

TEST(HttpServer, ReadsBodiesUpToItsLimit) {
  TestServer server(strict_limits());
  TestClient client(server.port());
  std::string body(100'000, 'x');
  client.send(echo(body));
  EXPECT_EQ(client.read_answer().body, body);
}

TEST(HttpServer, AsksForTheBodyThatWaitsForIt) {
  TestServer server;
  TestClient client(server.port());
  client.send(post_echo("Content-Length: 3\r\nExpect: 100-continue\r\n", ""));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  EXPECT_EQ(client.read_answer().body, "abc");
}

TEST(HttpServer, DoesNotAskForABodyThatItWillRefuse) {
  TestServer server(strict_limits());
  EXPECT_EQ(refusal_of(server, post_echo("Content-Length: 100001\r\nExpect: 100-continue\r\n", "")).status, 413);
}

TEST(HttpServer, ServesOldClients) {
  TestServer server;
  server.gate.open();
  TestClient client(server.port());
  client.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  Answer answer = client.read_answer();
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.header("Connection"), "keep-alive");
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  answer = client.read_answer();
  EXPECT_EQ(answer.header("Transfer-Encoding"), "");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_EQ(answer.body, "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
  EXPECT_TRUE(answer.complete);
  TestClient closing(server.port());
  closing.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(closing.read_answer().header("Connection"), "close");
  EXPECT_EQ(closing.read_to_close(), "");
}

TEST(HttpServer, ClosesWhenAsked) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/hello", "Connection: close\r\n"));
  EXPECT_EQ(client.read_answer().header("Connection"), "close");
  EXPECT_EQ(client.read_to_close(), "");
}

TEST(HttpServer, NamesTheFaultOfBadRequests) {
  TestServer server(strict_limits());
  EXPECT_EQ(refusal_of(server, "\x16\x03\x01\x02 this is TLS").status, 400);
  EXPECT_EQ(refusal_of(server, "GET / HTTP/1.1\nHost: x\n\n").status, 400);
  EXPECT_EQ(refusal_of(server, "GET / HTTP/1.1\r\n\r\n").status, 400);
  EXPECT_EQ(refusal_of(server, get("/%zz")).status, 400);
  EXPECT_EQ(refusal_of(server, get("/%00")).status, 400);
  EXPECT_EQ(refusal_of(server, get("/", "Bad Name: 1\r\n")).status, 400);
  EXPECT_EQ(refusal_of(server, "GET / HTTP/2.0\r\nHost: x\r\n\r\n").status, 505);
  EXPECT_EQ(refusal_of(server, post_echo("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n")).status,
            400);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n")).status,
            400);
  EXPECT_EQ(refusal_of(server, post_echo("Content-Length: 3\r\nContent-Length: 3\r\n", "abc")).status, 400);
  EXPECT_EQ(refusal_of(server, post_echo("Content-Length: 3\r\nContent-Length: 5\r\n", "abc")).status, 400);
  EXPECT_EQ(refusal_of(server, post_echo("Content-Length: -2\r\n", "")).status, 400);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: chunked\r\n", "-2\r\nab")).status, 400);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: chunked\r\n", "garbage\r\n")).status, 400);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: chunked\r\n", "2\r\nabc\r\n")).status, 400);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: gzip\r\n", "")).status, 501);
  EXPECT_EQ(refusal_of(server, get("/", "Expect: wonders\r\n")).status, 417);
}

TEST(HttpServer, LimitsHeaders) {
  TestServer server(strict_limits());
  EXPECT_EQ(refusal_of(server, get("/", "X: " + std::string(3000, 'x') + "\r\n")).status, 431);
  EXPECT_EQ(refusal_of(server, "GET /" + std::string(200'000, 'x')).status, 431);
  std::string headers;
  for (int i = 0; i < 20; ++i) headers += "A: 1\r\n";
  EXPECT_EQ(refusal_of(server, get("/", headers)).status, 431);
}

TEST(HttpServer, AClientStillSendingGetsTheRefusalAllTheSame) {
  TestServer server(strict_limits());
  // Closed at once, the socket would be reset under these bytes, and the answer lost with it.
  const std::string body(8 << 20, 'x');
  EXPECT_EQ(refusal_of(server, echo(body)).status, 413);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: chunked\r\n", "800000\r\n" + body)).status, 413);
}

TEST(HttpServer, ARefusalEndsAPipeline) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/hello") + "\x01garbage\r\n\r\n" + get("/hello"));
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_answer().status, 400);
  EXPECT_EQ(client.read_to_close(), "");
  EXPECT_EQ(server.wait_for_access(2).status, 400);
}

// A body's limit alone would let thousands of clients hold a whole one each.
TEST(HttpServer, AllBodiesTogetherHaveALimit) {
  HttpLimits limits = strict_limits();
  limits.bodies_bytes_max = 150'000;
  TestServer server(limits);
  const std::string body(80'000, 'x');
  const std::string framing = "Content-Length: 80000\r\n";
  TestClient holder(server.port());
  holder.send("POST /hold HTTP/1.1\r\nHost: x\r\n" + framing + "\r\n" + body);
  ASSERT_TRUE(server.entered.wait_for(1));

  const Answer refused = refusal_of(server, post_echo(framing, body));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_THAT(refused.body, HasSubstr("\"code\":\"too_many_bytes\""));
  TestClient small(server.port());
  small.send(echo("hello"));
  EXPECT_EQ(small.read_answer().body, "hello");

  server.gate.open();
  EXPECT_EQ(holder.read_answer().body, body);
  server.wait_for_access(3);
  holder.send(echo(body));
  EXPECT_EQ(holder.read_answer().body, body) << "the room came back";
}

TEST(HttpServer, AMethodThatHasNoUseForABodyGetsNoRoomForOne) {
  TestServer server;
  for (const char* method : {"GET", "HEAD", "OPTIONS", "DELETE"}) {
    const std::string line = std::string(method) + " /hello HTTP/1.1\r\nHost: x\r\n";
    TestClient client(server.port());
    client.send(line + "Content-Length: 70000\r\n\r\n");
    EXPECT_EQ(client.read_answer().status, 413) << method;
    TestClient chunked(server.port());
    chunked.send(line + "Transfer-Encoding: chunked\r\n\r\n" + "11171\r\n");
    EXPECT_EQ(chunked.read_answer().status, 413) << method;
  }
  TestClient client(server.port());
  client.send("GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(client.read_answer().body, "hello");
}

TEST(HttpServer, WritesErrorsAsTheClientsOfAPathReadThem) {
  HttpLimits limits = strict_limits();
  limits.body_timeout = 50ms;
  TestServer server(limits, AccessPolicy({"key"}, {}));
  const std::string key = "X-Api-Key: key\r\nX-Request-Id: mine\r\n";
  const auto ask = [&](const std::string& line, const std::string& headers) {
    TestClient client(server.port());
    client.send(line + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n");
    return client.read_answer().body;
  };
  EXPECT_THAT(ask("POST /shaped", "X-Request-Id: mine\r\n"), testing::MatchesRegex("401\\|.*\\|mine"));
  EXPECT_THAT(ask("GET /shaped/nothing", key), testing::MatchesRegex("404\\|.*\\|mine"));
  EXPECT_THAT(ask("GET /shaped", key), testing::MatchesRegex("405\\|.*\\|mine"));
  EXPECT_THAT(ask("GET /shaped/throw", key), testing::MatchesRegex("500\\|.*\\|mine"));
  EXPECT_THAT(ask("POST /shaped", key + "Content-Length: 5\r\n"), StartsWith("408|"));
  EXPECT_THAT(ask("POST /shaped", key + "Content-Length: 100001\r\n"), StartsWith("413|"));
  EXPECT_THAT(ask("POST /shaped?a=b", key + "Content-Length: x\r\n"), StartsWith("400|"));
  std::string many;
  for (int i = 0; i < 30; ++i) many += "X: y\r\n";
  EXPECT_THAT(ask("POST /shaped", many), StartsWith("431|"));
  EXPECT_THAT(ask("POST /shapedness", key), StartsWith("{\"error\":"));
  EXPECT_EQ(ask("POST /shaped", key), "shaped");
}

TEST(HttpServer, HeadersHaveADeadline) {
  HttpLimits limits = strict_limits();
  limits.header_timeout = 30ms;
  TestServer server(limits);
  EXPECT_EQ(refusal_of(server, "GET / HTTP/1.1\r\nHo").status, 408);
  EXPECT_EQ(server.wait_for_access(1).status, 408);
}

TEST(HttpServer, ADripOfBytesDoesNotMoveTheDeadline) {
  HttpLimits limits = strict_limits();
  limits.header_bytes_max = size_t{1} << 30;
  limits.header_timeout = 30ms;
  TestServer server(limits);
  TestClient client(server.port());
  client.send("GET / HTTP/1.1\r\n");
  // Sends until the server has had enough; the header's limit would take more of these than can be sent by then.
  while (client.send("A") && server.access().empty()) {
  }
  EXPECT_EQ(server.wait_for_access(1).status, 408);
}

TEST(HttpServer, BodiesHaveADeadline) {
  HttpLimits limits = strict_limits();
  limits.body_timeout = 30ms;
  TestServer server(limits);
  EXPECT_EQ(refusal_of(server, post_echo("Content-Length: 3\r\n", "ab")).status, 408);
  EXPECT_EQ(refusal_of(server, post_echo("Transfer-Encoding: chunked\r\n", "3\r\nab")).status, 408);
}

TEST(HttpServer, IdleConnectionsAreClosedWithoutAWord) {
  HttpLimits limits = strict_limits();
  limits.idle_timeout = 30ms;
  TestServer server(limits);
  TestClient silent(server.port());
  EXPECT_EQ(silent.read_to_close(), "");
  TestClient client(server.port());
  client.send(get("/hello"));
  EXPECT_EQ(client.read_answer().body, "hello");
  EXPECT_EQ(client.read_to_close(), "");
  EXPECT_TRUE(eventually([&] { return server.http().connections() == 0; }));
}

TEST(HttpServer, AHandlerThatFailsCostsItsOwnRequestOnly) {
  TestServer server;
  TestClient client(server.port());
  for (const char* path : {"/throw", "/forget"}) {
    client.send(get(path));
    const Answer answer = client.read_answer();
    EXPECT_EQ(answer.status, 500) << path;
    EXPECT_THAT(answer.body, HasSubstr("\"type\":\"server_error\"")) << path;
    EXPECT_THAT(answer.body, Not(HasSubstr("secret"))) << path;
  }
  client.send(get("/hello"));
  EXPECT_EQ(client.read_answer().body, "hello");
  EXPECT_EQ(server.wait_for_access(1).failure, "the handler threw: secret of the house");
  EXPECT_EQ(server.wait_for_access(2).failure, "the handler did not answer");
  EXPECT_EQ(server.wait_for_access(3).failure, "");
}

TEST(HttpServer, EveryCutOfAPipelineGetsTheSameAnswers) {
  TestServer server;
  const std::string bytes = echo("abc") + post_echo("Transfer-Encoding: chunked\r\n", "2\r\nde\r\n0\r\n\r\n") +
                            get("/hello", "Connection: close\r\n");
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    TestClient client(server.port());
    client.send(bytes.substr(0, cut));
    client.send(bytes.substr(cut));
    ASSERT_EQ(client.read_answer().body, "abc") << cut;
    ASSERT_EQ(client.read_answer().body, "de") << cut;
    ASSERT_EQ(client.read_answer().body, "hello") << cut;
    ASSERT_EQ(client.read_to_close(), "") << cut;
  }
}

TEST(HttpServer, GarbageIsAnsweredOrClosedAndLeavesNothingBehind) {
  HttpLimits limits = strict_limits();
  limits.header_timeout = 20ms;
  limits.body_timeout = 20ms;
  limits.idle_timeout = 20ms;
  TestServer server(limits);
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::vector<std::string> pieces = {"GET ",         "POST /echo HTTP/1.1\r\n",
                                           "Host: x\r\n",  "Content-Length: 3\r\n",
                                           "\r\n",         "Transfer-Encoding: chunked\r\n",
                                           "3\r\nabc\r\n", "0\r\n\r\n",
                                           "\n",           "/hello HTTP/1.1\r\n"};
  for (int i = 0; i < 200; ++i) {
    std::string bytes;
    for (size_t piece = random() % 10; piece > 0; --piece) {
      bytes += random() % 4 == 0 ? std::string(1 + random() % 50, static_cast<char>(random()))
                                 : pieces[random() % pieces.size()];
    }
    TestClient client(server.port());
    client.send(bytes);
    const std::string answer = client.read_to_close();
    ASSERT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 ")) << testing::PrintToString(bytes);
  }
  EXPECT_TRUE(eventually([&] { return server.http().connections() == 0; }));
  EXPECT_EQ(server.http().exchanges(), 0u);
}

}  // namespace
}  // namespace twostroke::http
