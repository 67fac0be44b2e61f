// FieldReader: reads the fields of a request's JSON object, checks type and bounds, and keeps the first thing that is
// wrong.
//
// Null means the default, as in OpenAI's own service. After the first error every read returns its default, so that a
// parser reads straight through and looks at error() once.
//
// Thread-safety: one user at a time. The object must outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/openai/api_error.h"
#include "server/openai/json.h"

namespace twostroke::openai {

class FieldReader {
 public:
  // `place`: what messages and `param` name a field by, before its own name: "stream_options." of an inner object.
  explicit FieldReader(const Json& object, std::string place = "") : object_(object), place_(std::move(place)) {}

  const Json& object() const { return object_; }
  // A field that is present and not null, or nullptr.
  const Json* find(const char* name) const;

  bool boolean(const char* name, bool fallback);
  double number(const char* name, double fallback, double min, double max);
  std::optional<int64_t> integer(const char* name, int64_t min, int64_t max);
  std::optional<std::string> string(const char* name);
  // A string or an array of strings: at most `count_max`, none of them empty or longer than `bytes_max`.
  std::vector<std::string> strings(const char* name, size_t count_max, size_t bytes_max);

  void fail(std::string param, std::string message);
  // Takes over what went wrong in an inner object.
  void fail(const FieldReader& inner);
  const std::optional<ApiError>& error() const { return error_; }

 private:
  std::string name_of(const char* name) const { return place_ + name; }

  const Json& object_;
  const std::string place_;
  std::optional<ApiError> error_;
};

// "a string", "an array", ...: for messages.
std::string json_type_name(const Json& value);

}  // namespace twostroke::openai
