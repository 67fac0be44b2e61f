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

TEST(OpenApi, EveryReferenceLeadsSomewhereAndEverySchemaIsUsed) {
  const Json json = document();
  std::set<std::string> references;
  collect_references(json, references);
  std::set<std::string> schemas;
  for (const auto& [name, schema] : json["components"]["schemas"].items()) {
    schemas.insert("#/components/schemas/" + name);
  }
  EXPECT_EQ(references, schemas);
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
