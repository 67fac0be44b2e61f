// KnownTools: the functions that may be called, and what their schemas say about the types of parameters.
//
// Thread-safety: a plain value.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace twostroke::reply {

// JSON types that a schema lets a value have, as a set of bits.
using TypeSet = uint32_t;
constexpr TypeSet kStringType = 1;
constexpr TypeSet kNumberType = 2;
constexpr TypeSet kBooleanType = 4;
constexpr TypeSet kNullType = 8;
constexpr TypeSet kArrayType = 16;
constexpr TypeSet kObjectType = 32;
constexpr TypeSet kAnyType = 63;

// What the schema says about a value's type; kAnyType where it leaves it open (or says it in a way not looked into).
// `root` resolves "#/..." references.
TypeSet schema_types(const nlohmann::ordered_json& schema, const nlohmann::ordered_json& root);

// The functions that may be called, and the types of their parameters.
class KnownTools {
 public:
  // `parameters`: the function's schema, or null.
  void add(const std::string& name, const nlohmann::ordered_json* parameters);
  // Any name is allowed where none was added.
  bool allows(const std::string& name) const { return tools_.empty() || tools_.contains(name); }
  TypeSet types(const std::string& name, const std::string& parameter) const;

 private:
  std::map<std::string, std::map<std::string, TypeSet>> tools_;
};

}  // namespace twostroke::reply
