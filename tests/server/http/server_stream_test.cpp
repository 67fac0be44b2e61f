// Streams, slow readers, and clients that leave.
#include <gtest/gtest.h>

#include "tests/server/http/test_client.h"
#include "tests/server/http/test_server.h"

namespace twostroke::http {
namespace {

using namespace std::chrono_literals;

HttpLimits short_pipeline() {
  HttpLimits limits;
  limits.pipelined_bytes_max = 1024;
  return limits;
}

TEST(HttpStream, EachWriteArrivesAsOneChunkAtOnce) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/stream"));
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("\r\nContent-Type: text/event-stream\r\n"), std::string::npos);
  EXPECT_NE(head.find("\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"), std::string::npos);
  EXPECT_EQ(client.read_until("data: 2\n\n\r\n"), "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n");
  server.gate.open();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
  EXPECT_FALSE(server.wait_for_access(1).disconnected);
}

TEST(HttpStream, TheConnectionGoesOnAfterAStream) {
  TestServer server;
  server.gate.open();
  TestClient client(server.port());
  client.send(get("/stream") + get("/hello"));
  const Answer answer = client.read_answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.chunks.size(), 3u);
  EXPECT_EQ(client.read_answer().body, "hello");
}

TEST(HttpStream, AFailureInMidStreamCutsItOff) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/throw-in-stream"));
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "data: 1\n\n");
  EXPECT_FALSE(answer.complete);
  const AccessRecord record = server.wait_for_access(1);
  EXPECT_EQ(record.status, 200);
  EXPECT_FALSE(record.disconnected);
}

TEST(HttpStream, AnOldClientSeesACutOffStreamAsAReset) {
  TestServer server;
  TestClient client(server.port());
  client.send("GET /throw-in-stream HTTP/1.0\r\n\r\n");
  client.read_to_close();
  EXPECT_TRUE(client.was_reset());
}

TEST(HttpStream, AClientThatDoesNotReadIsGoneAfterTheWriteTimeout) {
  HttpLimits limits;
  limits.write_timeout = 50ms;
  TestServer server(limits);
  for (const char* path : {"/endless", "/flood"}) {
    TestClient client(server.port(), 4096);
    client.send(get(path));
    const size_t before = server.access().size();
    EXPECT_TRUE(server.wait_for_access(before + 1).disconnected) << path;
    EXPECT_TRUE(eventually([&] { return server.http().connections() == 0; })) << path;
    client.read_to_close();
    EXPECT_TRUE(client.was_reset()) << path;
  }
  EXPECT_EQ(server.failed_writes.count(), 2u);
}

TEST(HttpStream, ASlowReaderGetsAllOfALargeAnswer) {
  HttpLimits limits;
  limits.write_timeout = 20s;
  TestServer server(limits);
  TestClient client(server.port(), 64 * 1024);
  client.send(get("/flood"));
  const Answer answer = client.read_answer();
  EXPECT_TRUE(answer.complete);
  EXPECT_EQ(answer.body.size(), size_t{64} << 20);
  EXPECT_EQ(answer.body.find_first_not_of('x'), std::string::npos);
}

enum class Leave { kClose, kHalfClose, kReset };

class HttpDisconnect : public testing::TestWithParam<Leave> {
 protected:
  static void leave(TestClient& client) {
    switch (GetParam()) {
      case Leave::kClose:
        client.close();
        break;
      case Leave::kHalfClose:
        client.half_close();
        break;
      case Leave::kReset:
        client.reset();
        break;
    }
  }

  static void expect_nothing_left(TestServer& server) {
    EXPECT_TRUE(server.disconnected.wait_for(1));
    const AccessRecord record = server.wait_for_access(1);
    EXPECT_TRUE(record.disconnected);
    EXPECT_TRUE(eventually([&] { return server.http().connections() == 0; }));
    EXPECT_EQ(server.http().exchanges(), 0u);
    EXPECT_EQ(server.failed_writes.count(), 1u);
    EXPECT_EQ(server.disconnected.count(), 1u);
  }
};

TEST_P(HttpDisconnect, IsNoticedBeforeTheAnswer) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/wait"));
  ASSERT_TRUE(server.entered.wait_for(1));
  leave(client);
  expect_nothing_left(server);
  EXPECT_EQ(server.access()[0].status, 0);
}

TEST_P(HttpDisconnect, IsNoticedInMidStream) {
  TestServer server;
  TestClient client(server.port());
  client.send(get("/stream"));
  client.read_until("data: 2\n\n");
  ASSERT_TRUE(server.entered.wait_for(1));
  leave(client);
  expect_nothing_left(server);
  EXPECT_EQ(server.access()[0].status, 200);
}

TEST_P(HttpDisconnect, IsNoticedWhileTheReadAheadIsFull) {
  TestServer server(short_pipeline());
  TestClient client(server.port());
  client.send(get("/wait"));
  ASSERT_TRUE(server.entered.wait_for(1));
  std::string pipelined;
  while (pipelined.size() < 8 * short_pipeline().pipelined_bytes_max) pipelined += get("/hello");
  client.send(pipelined);
  leave(client);
  expect_nothing_left(server);
  EXPECT_EQ(server.access().size(), 1u) << "what was pipelined behind is not run";
}

TEST_P(HttpDisconnect, IsNoticedWhileWritesWait) {
  TestServer server;
  TestClient client(server.port(), 4096);
  client.send(get("/endless"));
  ASSERT_TRUE(server.entered.wait_for(1));
  leave(client);
  if (GetParam() == Leave::kHalfClose) client.read_to_close();  // lets the write in progress end
  expect_nothing_left(server);
}

std::string leave_name(const testing::TestParamInfo<Leave>& leave) {
  switch (leave.param) {
    case Leave::kClose:
      return "Close";
    case Leave::kHalfClose:
      return "HalfClose";
    case Leave::kReset:
      return "Reset";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(Http, HttpDisconnect, testing::Values(Leave::kClose, Leave::kHalfClose, Leave::kReset),
                         leave_name);

}  // namespace
}  // namespace twostroke::http
