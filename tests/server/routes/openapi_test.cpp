// The OpenAPI document and the routes that the server has are the same list.
#include "server/openai/openapi/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/openai/service.h"
#include "server/ops/endpoints.h"

namespace twostroke::openai {
namespace {

Json document() {
  return openapi_document({.version = "1", .vocab_size = 1000, .context_max = 512, .embedding_size = 64});
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

TEST(OpenApi, NamesEveryRouteAndNoOther) {
  const ServiceSlot slot;
  const Health health(1);
  Metrics metrics({});
  http::Router router;
  add_routes(router, slot);
  add_ops_routes(router, health, metrics, "1", [] {});
  std::set<std::string> routes;
  for (std::string name : router.names()) {
    const size_t rest = name.find("...}");  // a document cannot say that a parameter may hold slashes
    if (rest != std::string::npos) name.erase(rest, 3);
    routes.insert(name);
  }
  std::set<std::string> documented;
  const Json json = document();
  for (const auto& [path, operations] : json["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      documented.insert(upper(method) + " " + path);
      // The probes are the routes that need no key.
      std::string concrete = path;
      std::erase_if(concrete, [](char c) { return c == '{' || c == '}'; });
      const bool open = router.match(upper(method), concrete).access == http::RouteAccess::kOpen;
      EXPECT_EQ(operation.contains("security"), open) << path;
      EXPECT_EQ(operation["responses"].contains("401"), !open) << path;
    }
  }
  EXPECT_EQ(documented, routes);
}

void collect_references(const Json& json, std::set<std::string>& references) {
  if (json.is_object() && json.contains("$ref")) references.insert(json["$ref"].get<std::string>());
  if (!json.is_structured()) return;
  for (const Json& item : json) collect_references(item, references);
}

TEST(OpenApi, EveryReferenceLeadsSomewhereAndEverySchemaAndParameterIsUsed) {
  const Json json = document();
  std::set<std::string> references;
  collect_references(json, references);
  std::set<std::string> targets;
  for (const std::string kind : {"schemas", "parameters"}) {
    for (const auto& [name, target] : json["components"][kind].items()) {
      targets.insert("#/components/" + kind + "/" + name);
    }
  }
  EXPECT_EQ(references, targets);
}

// The headers that an operation's parameters name.
std::set<std::string> headers_of(const Json& json, const Json& operation) {
  std::set<std::string> headers;
  for (const Json& given : operation.at("parameters")) {
    const Json& parameter =
        given.contains("$ref") ? json.at(Json::json_pointer(given["$ref"].get<std::string>().substr(1))) : given;
    if (parameter["in"] == "header") headers.insert(parameter["name"].get<std::string>());
  }
  return headers;
}

TEST(OpenApi, NamesTheHeadersThatAnOperationReads) {
  const Json json = document();
  const std::set<std::string> generating = {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"};
  for (const auto& [path, operations] : json["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      std::set<std::string> expected = {"X-Request-Id"};
      if (generating.contains(path)) expected.insert({"x-slo-ttft-ms", "x-slo-tpot-ms"});
      EXPECT_EQ(headers_of(json, operation), expected) << method << " " << path;
    }
  }
  EXPECT_EQ(json["components"]["parameters"]["SloTtftMs"]["schema"]["maximum"], 86'400'000);
}

TEST(OpenApi, DeclaresTheHeadersThatSayWhetherToTryAgain) {
  const Json json = document();
  const auto headers = [&json](const char* path, const char* method, const char* status) {
    std::set<std::string> names;
    const Json& answer = json["paths"][path][method]["responses"][status];
    const Json answer_headers = answer.value("headers", Json::object());
    for (const auto& [name, header] : answer_headers.items()) names.insert(name);
    return names;
  };
  const std::set<std::string> retry = {"Retry-After"};
  const std::set<std::string> either = {"Retry-After", "x-should-retry"};
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"}) {
    EXPECT_EQ(headers(path, "post", "429"), either) << path;
    EXPECT_EQ(headers(path, "post", "503"), retry) << path;
    EXPECT_THAT(json["paths"][path]["post"]["responses"]["429"]["description"],
                ::testing::HasSubstr("`x-should-retry: false`"));
  }
  EXPECT_EQ(headers("/v1/embeddings", "post", "429"), retry);
  EXPECT_EQ(headers("/tokenize", "post", "429"), retry);
  EXPECT_EQ(headers("/debug/requests", "get", "429"), retry);
  EXPECT_EQ(headers("/v1/models", "get", "503"), retry);
  EXPECT_EQ(headers("/readyz", "get", "503"), std::set<std::string>()) << "a probe's own answer";
}

TEST(OpenApi, BoundsAreTheProgramsOwn) {
  const Json json = document();
  EXPECT_EQ(json["components"]["schemas"]["TokenId"]["maximum"], 999);
  EXPECT_EQ(json.dump().find("\"$"), json.dump().find("\"$ref\"")) << "only references begin with '$'";
}

TEST(OpenApi, OptionalFieldsOfRequestsMayBeNullAndRequiredOnesMayNot) {
  const Json schemas = document()["components"]["schemas"];
  const Json& properties = schemas["TokenizeTextRequest"]["properties"];
  EXPECT_EQ(properties["model"]["type"], Json::array({"string", "null"}));
  EXPECT_EQ(properties["prompt"]["type"], "string");
}

}  // namespace
}  // namespace twostroke::openai
