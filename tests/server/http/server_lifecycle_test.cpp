// Many clients, too many clients, draining, stopping, and the ends of objects.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <list>
#include <optional>

#include "tests/server/http/test_client.h"
#include "tests/server/http/test_server.h"

namespace twostroke::http {
namespace {

using namespace std::chrono_literals;

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(HttpServer, TwoHundredClientsThatVanishInMidStreamLeaveNothingBehind) {
  const size_t before = open_descriptors();
  {
    TestServer server;
    std::list<TestClient> clients;
    for (int i = 0; i < 200; ++i) {
      clients.emplace_back(server.port());
      clients.back().send(get("/stream"));
    }
    for (TestClient& client : clients) client.read_until("data: 2\n\n");
    ASSERT_TRUE(server.entered.wait_for(200));
    EXPECT_EQ(server.http().connections(), 200u);
    EXPECT_EQ(server.http().exchanges(), 200u);
    int i = 0;
    for (TestClient& client : clients) ++i % 2 == 0 ? client.close() : client.reset();
    EXPECT_TRUE(server.disconnected.wait_for(200));
    server.wait_for_access(200);
    EXPECT_EQ(server.http().exchanges(), 0u);
    EXPECT_TRUE(eventually([&] { return server.http().connections() == 0; }));

    TestClient another(server.port());
    another.send(get("/hello"));
    EXPECT_EQ(another.read_answer().body, "hello");
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(HttpServer, BeyondItsConnectionsItSaysSo) {
  HttpLimits limits;
  limits.connections_max = 2;
  limits.idle_grace = 1h;
  TestServer server(limits);
  TestClient first(server.port());
  TestClient second(server.port());
  for (TestClient* client : {&first, &second}) {
    client->send(get("/hello"));
    EXPECT_EQ(client->read_answer().status, 200);
  }
  for (int i = 0; i < 3; ++i) {
    TestClient refused(server.port());
    refused.send(get("/hello"));
    const Answer answer = refused.read_answer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.header("Retry-After"), "1");
    EXPECT_EQ(answer.header("Connection"), "close");
    EXPECT_EQ(refused.read_to_close(), "");
    EXPECT_EQ(server.http().connections(), 2u);
  }
  first.close();
  EXPECT_TRUE(eventually([&] { return server.http().connections() == 1; }));
  TestClient third(server.port());
  third.send(get("/hello"));
  EXPECT_EQ(third.read_answer().status, 200);
}

TEST(HttpServer, NoCrowdIsLeftWithoutAnAnswerOrAnEnd) {
  HttpLimits limits;
  limits.connections_max = 1;
  limits.idle_grace = 1h;
  TestServer server(limits);
  TestClient served(server.port());
  served.send(get("/hello"));
  EXPECT_EQ(served.read_answer().status, 200);
  std::list<TestClient> crowd;
  for (int i = 0; i < 200; ++i) crowd.emplace_back(server.port());  // more than may be refused at the same time
  for (TestClient& client : crowd) {
    const std::string answer = client.read_to_close();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 503 ")) << answer;
  }
  served.send(get("/hello"));
  EXPECT_EQ(served.read_answer().status, 200);
}

TEST(HttpServer, AnIdleConnectionMakesRoom) {
  HttpLimits limits;
  limits.connections_max = 2;
  limits.idle_grace = 0ms;
  TestServer server(limits);
  TestClient busy(server.port());
  busy.send(get("/wait"));
  ASSERT_TRUE(server.entered.wait_for(1));
  TestClient idle(server.port());
  idle.send(get("/hello"));
  EXPECT_EQ(idle.read_answer().status, 200);
  std::optional<TestClient> newcomer;
  EXPECT_TRUE(eventually([&] {
    newcomer.emplace(server.port());
    newcomer->send(get("/hello"));
    return newcomer->read_answer().status == 200;
  })) << "as soon as the server knows that the other is idle";
  EXPECT_EQ(idle.read_to_close(), "");
  EXPECT_EQ(server.http().connections(), 2u);
  server.gate.open();
  EXPECT_EQ(busy.read_answer().body, "waited");
}

TEST(HttpServer, ConnectionsThatAreAnsweredMakeNoRoom) {
  HttpLimits limits;
  limits.connections_max = 2;
  limits.idle_grace = 0ms;
  TestServer server(limits);
  TestClient first(server.port());
  TestClient second(server.port());
  for (TestClient* client : {&first, &second}) client->send(get("/wait"));
  ASSERT_TRUE(server.entered.wait_for(2));
  TestClient third(server.port());
  third.send(get("/hello"));
  EXPECT_EQ(third.read_answer().status, 503);
  server.gate.open();
  for (TestClient* client : {&first, &second}) EXPECT_EQ(client->read_answer().body, "waited");
}

TEST(HttpServer, OutlivesAShortageOfDescriptors) {
  TestServer server;
  TestClient warm(server.port());
  // Twice: the second answer says that the first request is gone. The undefined-behaviour sanitizer opens a pipe where
  // it meets a class for the first time, and calls the object broken when it cannot.
  for (int i = 0; i < 2; ++i) {
    warm.send(get("/hello"));
    EXPECT_EQ(warm.read_answer().status, 200);
  }
  TestClient waiting = TestClient::unconnected();

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;  // what is open stays open; nothing more can be
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool connected = waiting.connect(server.port());
  waiting.send(get("/hello"));
  warm.send(get("/hello"));
  const int status_in_shortage = warm.read_answer().status;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);

  EXPECT_TRUE(connected);
  EXPECT_EQ(status_in_shortage, 200);
  EXPECT_EQ(waiting.read_answer().body, "hello");
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer server;
  boost::asio::io_context io;
  HttpServer second(io, HttpLimits{}, Router{}, nullptr);
  const Status in_use = second.listen("127.0.0.1", server.port());
  EXPECT_FALSE(in_use.ok());
  EXPECT_NE(in_use.message().find("127.0.0.1 port " + std::to_string(server.port())), std::string::npos);
  EXPECT_NE(in_use.message().find("another program listens there"), std::string::npos);
  const Status foreign = second.listen("192.0.2.1", 0);
  EXPECT_FALSE(foreign.ok());
  EXPECT_NE(foreign.message().find("192.0.2.1"), std::string::npos);
  EXPECT_FALSE(second.listen("not an address", 0).ok());
}

TEST(HttpServer, ADrainClosesIdleConnectionsAndLetsAnswersFinish) {
  TestServer server;
  TestClient idle(server.port());
  TestClient waiting(server.port());
  TestClient streaming(server.port());
  idle.send(get("/hello"));
  EXPECT_EQ(idle.read_answer().status, 200);
  waiting.send(get("/wait"));
  streaming.send(get("/stream"));
  ASSERT_TRUE(server.entered.wait_for(2));

  server.http().begin_drain();
  EXPECT_EQ(idle.read_to_close(), "");
  EXPECT_TRUE(eventually([&] { return server.http().connections() == 2; }));
  EXPECT_TRUE(eventually([&] { return !TestClient::unconnected().connect(server.port()); }));
  EXPECT_EQ(server.http().exchanges(), 2u);

  server.gate.open();
  const Answer answer = waiting.read_answer();
  EXPECT_EQ(answer.body, "waited");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_TRUE(streaming.read_answer().complete);
  EXPECT_EQ(waiting.read_to_close(), "");
  EXPECT_EQ(streaming.read_to_close(), "");
  server.join();  // nothing keeps the io_context busy any more
  EXPECT_EQ(server.http().connections(), 0u);
  EXPECT_EQ(server.http().exchanges(), 0u);
}

TEST(HttpServer, ADrainAnswersTheRequestThatIsArriving) {
  TestServer server;
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");  // so the server has begun to read it
  server.http().begin_drain();
  client.send("abc");
  const Answer answer = client.read_answer();
  EXPECT_EQ(answer.body, "abc");
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_EQ(client.read_to_close(), "");
}

TEST(HttpServer, AStopEndsEverythingAtOnce) {
  TestServer server;
  TestClient idle(server.port());
  TestClient waiting(server.port());
  TestClient streaming(server.port());
  waiting.send(get("/wait"));
  streaming.send(get("/stream"));
  ASSERT_TRUE(server.entered.wait_for(2));
  EXPECT_TRUE(eventually([&] { return server.http().connections() == 3; }));
  server.http().stop();
  EXPECT_TRUE(server.disconnected.wait_for(2));
  EXPECT_EQ(idle.read_to_close(), "");
  EXPECT_EQ(waiting.read_to_close(), "");
  EXPECT_FALSE(streaming.read_answer().complete);
  server.join();
  EXPECT_EQ(server.http().connections(), 0u);
  EXPECT_EQ(server.http().exchanges(), 0u);
}

TEST(HttpServer, MayEndBeforeItsConnectionsAndTheIoContextBeforeTheHandlers) {
  const size_t before = open_descriptors();
  {
    TestServer server;
    TestClient waiting(server.port());
    waiting.send(get("/wait"));
    ASSERT_TRUE(server.entered.wait_for(1));
    server.destroy_http();
    EXPECT_TRUE(server.disconnected.wait_for(1));
    EXPECT_EQ(waiting.read_to_close(), "");
  }
  {
    TestServer server;
    TestClient waiting(server.port());
    TestClient idle(server.port());
    TestClient streaming(server.port());
    waiting.send(get("/wait"));
    streaming.send(get("/stream"));
    ASSERT_TRUE(server.entered.wait_for(2));
    server.destroy_io();
    EXPECT_EQ(waiting.read_to_close(), "");
    EXPECT_EQ(idle.read_to_close(), "");
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace twostroke::http
