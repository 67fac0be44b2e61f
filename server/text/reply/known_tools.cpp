#include "server/text/reply/known_tools.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace twostroke::reply {
namespace {

using Json = nlohmann::ordered_json;

TypeSet type_named(const std::string& type) {
  if (type == "string") return kStringType;
  if (type == "number" || type == "integer") return kNumberType;
  if (type == "boolean") return kBooleanType;
  if (type == "null") return kNullType;
  if (type == "array") return kArrayType;
  return type == "object" ? kObjectType : kAnyType;
}

TypeSet type_of(const Json& value) {
  if (value.is_string()) return kStringType;
  if (value.is_number()) return kNumberType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_null()) return kNullType;
  return value.is_array() ? kArrayType : kObjectType;
}

constexpr int kSchemaDepthMax = 16;

TypeSet types_within(const Json& schema, const Json& root, int depth) {
  if (!schema.is_object() || depth == kSchemaDepthMax) return kAnyType;
  TypeSet types = kAnyType;
  if (const auto type = schema.find("type"); type != schema.end()) {
    TypeSet named = 0;
    if (type->is_string()) named = type_named(type->get<std::string>());
    if (type->is_array()) {
      for (const Json& one : *type) named |= one.is_string() ? type_named(one.get<std::string>()) : kAnyType;
    }
    if (named != 0) types &= named;
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array() && !values->empty()) {
    TypeSet listed = 0;
    for (const Json& value : *values) listed |= type_of(value);
    types &= listed;
  }
  if (const auto value = schema.find("const"); value != schema.end()) types &= type_of(*value);
  for (const char* keyword : {"anyOf", "oneOf"}) {
    const auto alternatives = schema.find(keyword);
    if (alternatives == schema.end() || !alternatives->is_array() || alternatives->empty()) continue;
    TypeSet any = 0;
    for (const Json& alternative : *alternatives) any |= types_within(alternative, root, depth + 1);
    types &= any;
  }
  if (const auto reference = schema.find("$ref"); reference != schema.end() && reference->is_string()) {
    const std::string& target = reference->get_ref<const std::string&>();
    for (const char* prefix : {"#/$defs/", "#/definitions/"}) {
      if (!target.starts_with(prefix)) continue;
      const std::string_view section = std::string_view(prefix).substr(2, std::string_view(prefix).size() - 3);
      const auto definitions = root.find(section);
      const std::string name = target.substr(std::string_view(prefix).size());
      if (definitions != root.end() && definitions->is_object() && definitions->contains(name)) {
        types &= types_within(definitions->at(name), root, depth + 1);
      }
    }
  }
  return types == 0 ? kAnyType : types;
}

}  // namespace

TypeSet schema_types(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root) {
  return types_within(schema, root, 0);
}

void KnownTools::add(const std::string& name, const nlohmann::ordered_json* parameters) {
  auto& types = tools_[name];
  if (parameters == nullptr || !parameters->is_object()) return;
  const auto properties = parameters->find("properties");
  if (properties == parameters->end() || !properties->is_object()) return;
  for (const auto& [key, schema] : properties->items()) types[key] = schema_types(schema, *parameters);
}

TypeSet KnownTools::types(const std::string& name, const std::string& parameter) const {
  const auto tool = tools_.find(name);
  if (tool == tools_.end()) return kAnyType;
  const auto types = tool->second.find(parameter);
  return types == tool->second.end() ? kAnyType : types->second;
}

}  // namespace twostroke::reply
