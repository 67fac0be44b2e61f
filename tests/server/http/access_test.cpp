// API keys and CORS: the policy by itself, and against a live server.
#include "server/http/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/http/test_client.h"
#include "tests/server/http/test_server.h"

namespace twostroke::http {
namespace {

using testing::HasSubstr;

HttpRequest request_with(Headers headers) {
  HttpRequest request;
  request.method = "POST";
  request.headers = std::move(headers);
  return request;
}

TEST(AccessPolicy, WithoutKeysEverybodyIsTheSameTenant) {
  const AccessPolicy policy;
  EXPECT_EQ(policy.tenant(request_with({})), 0U);
  EXPECT_EQ(policy.tenant(request_with({{"Authorization", "Bearer anything"}})), 0U);
}

TEST(AccessPolicy, TakesAKeyFromEitherHeader) {
  const AccessPolicy policy({"one", "two"}, {});
  const auto one = policy.tenant(request_with({{"Authorization", "Bearer one"}}));
  ASSERT_TRUE(one.has_value());
  EXPECT_NE(*one, 0U);
  EXPECT_EQ(policy.tenant(request_with({{"authorization", "bearer  one"}})), one);
  EXPECT_EQ(policy.tenant(request_with({{"x-api-key", "one"}})), one);
  EXPECT_EQ(policy.tenant(request_with({{"Authorization", "Bearer wrong"}, {"X-Api-Key", "one"}})), one);
  EXPECT_EQ(policy.tenant(request_with({{"Authorization", "Bearer one"}, {"X-Api-Key", "wrong"}})), one);
}

TEST(AccessPolicy, TellsTenantsApartAndTheSameWayInEveryRun) {
  const AccessPolicy first({"one", "two"}, {});
  const AccessPolicy second({"two", "three", "one"}, {});
  const auto one = request_with({{"X-Api-Key", "one"}});
  const auto two = request_with({{"X-Api-Key", "two"}});
  EXPECT_NE(first.tenant(one), first.tenant(two));
  EXPECT_EQ(first.tenant(one), second.tenant(one));
}

TEST(AccessPolicy, RefusesWhatIsNotWhollyAKey) {
  const AccessPolicy policy({"secret"}, {});
  for (const char* value : {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret1", "Bearer SECRET", "Basic secret",
                            "secret", "Bearer secret secret", "Bearersecret"}) {
    EXPECT_EQ(policy.tenant(request_with({{"Authorization", value}})), std::nullopt) << value;
  }
  EXPECT_EQ(policy.tenant(request_with({{"X-Api-Key", ""}})), std::nullopt);
  EXPECT_EQ(policy.tenant(request_with({{"X-Api-Key", "Bearer secret"}})), std::nullopt);
  EXPECT_EQ(policy.tenant(request_with({})), std::nullopt);
}

std::string value_of(const Headers& headers, std::string_view name) {
  for (const auto& [own, value] : headers) {
    if (own == name) return value;
  }
  return "";
}

TEST(AccessPolicy, NamesOnlyListedOrigins) {
  const AccessPolicy policy({}, {"https://a.example", "http://localhost:3000"});
  const Headers listed = policy.headers("http://localhost:3000");
  EXPECT_EQ(value_of(listed, "Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(value_of(listed, "Vary"), "Origin");
  for (const char* origin : {"", "null", "https://b.example", "https://a.example.evil.com", "https://a.exampl", "*",
                             "http://a.example", "https://A.example"}) {
    const Headers headers = policy.headers(origin);
    EXPECT_EQ(value_of(headers, "Access-Control-Allow-Origin"), "") << origin;
    EXPECT_EQ(value_of(headers, "Vary"), "Origin") << origin;
  }
  EXPECT_TRUE(AccessPolicy({}, {}).headers("https://a.example").empty());
}

TEST(AccessPolicy, AStarLetsEveryPageReadAndNamesNone) {
  const AccessPolicy policy({}, {"*"});
  const Headers headers = policy.headers("https://b.example");
  EXPECT_EQ(value_of(headers, "Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(value_of(headers, "Vary"), "");
}

AccessPolicy keyed() { return AccessPolicy({"secret"}, {"https://a.example"}); }

std::string options(const std::string& path, const std::string& headers = "") {
  return "OPTIONS " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n";
}

TEST(HttpServerAccess, EveryRouteButTheOpenOnesNeedsAKey) {
  TestServer server({}, keyed());
  TestClient client(server.port());
  for (const char* path : {"/hello", "/args/a/b", "/stream", "/nothing", "/v1/nothing"}) {
    client.send(get(path));
    const Answer refused = client.read_answer();
    EXPECT_EQ(refused.status, 401) << path;
    EXPECT_THAT(refused.body, HasSubstr("\"code\":\"invalid_api_key\"")) << path;
    EXPECT_EQ(refused.header("WWW-Authenticate"), "Bearer") << path;
  }
  client.send(get("/hello", "Authorization: Bearer secret\r\n"));
  EXPECT_EQ(client.read_answer().body, "hello");
  client.send(get("/nothing", "X-Api-Key: secret\r\n"));
  EXPECT_EQ(client.read_answer().status, 404);
  client.send(get("/probe"));
  EXPECT_EQ(client.read_answer().body, "probed");
}

TEST(HttpServerAccess, ABodyIsNotReadForAClientWithoutAKey) {
  TestServer server({}, keyed());
  TestClient client(server.port());
  // The body never comes: an answer shows that nobody waited for it.
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  const Answer refused = client.read_answer();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.header("Connection"), "close");
  const AccessRecord record = server.wait_for_access(1);
  EXPECT_EQ(record.status, 401);
  EXPECT_EQ(record.route, "/echo");
}

TEST(HttpServerAccess, HandlersSeeTheTenant) {
  TestServer server({}, AccessPolicy({"one", "two"}, {}));
  TestClient client(server.port());
  client.send(get("/tenant", "X-Api-Key: one\r\n"));
  const std::string one = client.read_answer().body;
  client.send(get("/tenant", "Authorization: Bearer two\r\n"));
  const std::string two = client.read_answer().body;
  client.send(get("/tenant", "Authorization: Bearer one\r\n"));
  EXPECT_EQ(client.read_answer().body, one);
  EXPECT_NE(one, two);
  EXPECT_NE(one, "0");
}

TEST(HttpServerAccess, OptionsNeedsNoKeyAndNamesTheMethods) {
  TestServer server({}, keyed());
  TestClient client(server.port());
  client.send(options("/echo",
                      "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n"
                      "Access-Control-Request-Headers: authorization, x-stainless-lang\r\n"));
  const Answer preflight = client.read_answer();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("Allow"), "POST, OPTIONS");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(preflight.header("Access-Control-Allow-Headers"), "authorization, x-stainless-lang");
  EXPECT_EQ(preflight.header("Vary"), "Origin");

  client.send(options("/echo", "Origin: https://b.example\r\nAccess-Control-Request-Method: POST\r\n"));
  const Answer foreign = client.read_answer();
  EXPECT_EQ(foreign.status, 204);
  EXPECT_EQ(foreign.header("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(foreign.header("Access-Control-Allow-Methods"), "");

  client.send(options("/hello"));
  EXPECT_EQ(client.read_answer().header("Allow"), "GET, HEAD, OPTIONS");
  client.send(options("/nothing"));
  EXPECT_EQ(client.read_answer().status, 404);
}

TEST(HttpServerAccess, AnswersStreamsAndRefusalsNameTheOrigin) {
  TestServer server({.body_bytes_max = 10}, keyed());
  server.gate.open();
  const std::string origin = "Origin: https://a.example\r\n";
  const std::string key = "X-Api-Key: secret\r\n";
  for (const std::string& bytes :
       {get("/hello", origin + key), get("/stream", origin + key), get("/hello", origin), get("/nothing", origin + key),
        get("/throw", origin + key),
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n" + origin + key + "\r\n"}) {
    TestClient client(server.port());
    client.send(bytes);
    EXPECT_EQ(client.read_answer().header("Access-Control-Allow-Origin"), "https://a.example") << bytes;
  }
}

}  // namespace
}  // namespace twostroke::http
