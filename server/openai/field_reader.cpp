#include "server/openai/field_reader.h"

#include <cmath>
#include <sstream>

namespace twostroke::openai {
namespace {

std::string format_number(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

std::string json_type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

const Json* FieldReader::find(const char* name) const {
  if (!object_.is_object()) return nullptr;
  // Dozens of names are asked for, and few are there: a comparison that looks at sizes first.
  const std::string_view wanted(name);
  for (const auto& [key, value] : object_.get_ref<const Json::object_t&>()) {
    if (key == wanted) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

void FieldReader::fail(std::string param, std::string message) {
  if (!error_) error_ = bad_field(std::move(param), std::move(message));
}

void FieldReader::fail(const FieldReader& inner) {
  if (!error_) error_ = inner.error_;
}

bool FieldReader::boolean(const char* name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const std::string field = name_of(name);
  if (!value->is_boolean()) {
    fail(field, "'" + field + "' must be true or false, not " + json_type_name(*value) + ".");
    return fallback;
  }
  return value->get<bool>();
}

double FieldReader::number(const char* name, double fallback, double min, double max) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const std::string field = name_of(name);
  if (!value->is_number()) {
    fail(field, "'" + field + "' must be a number, not " + json_type_name(*value) + ".");
    return fallback;
  }
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < min || number > max) {
    fail(field, "'" + field + "' must be between " + format_number(min) + " and " + format_number(max) + ", not " +
                    format_number(number) + ".");
    return fallback;
  }
  return number;
}

std::optional<int64_t> FieldReader::integer(const char* name, int64_t min, int64_t max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string field = name_of(name);
  // A float without a fraction is an integer, as JavaScript clients may write it.
  const bool whole = value->is_number_integer() || (value->is_number_float() && std::isfinite(value->get<double>()) &&
                                                    std::trunc(value->get<double>()) == value->get<double>() &&
                                                    std::abs(value->get<double>()) < 9e15);
  if (!whole) {
    fail(field, "'" + field + "' must be an integer, not " + json_type_name(*value) + ".");
    return std::nullopt;
  }
  const bool beyond = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t integer = beyond                     ? INT64_MAX
                          : value->is_number_float() ? static_cast<int64_t>(value->get<double>())
                                                     : value->get<int64_t>();
  if (beyond || integer < min || integer > max) {
    fail(field, "'" + field + "' must be an integer between " + std::to_string(min) + " and " + std::to_string(max) +
                    ", not " + value->dump() + ".");
    return std::nullopt;
  }
  return integer;
}

std::optional<std::string> FieldReader::string(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string field = name_of(name);
  if (!value->is_string()) {
    fail(field, "'" + field + "' must be a string, not " + json_type_name(*value) + ".");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::vector<std::string> FieldReader::strings(const char* name, size_t count_max, size_t bytes_max) {
  const Json* value = find(name);
  std::vector<std::string> strings;
  if (value == nullptr) return strings;
  const std::string field = name_of(name);
  if (value->is_string()) {
    strings.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    if (value->size() > count_max) {
      fail(field, "'" + field + "' may hold at most " + std::to_string(count_max) + " strings, not " +
                      std::to_string(value->size()) + ".");
      return {};
    }
    for (const Json& item : *value) {
      if (!item.is_string()) {
        fail(field, "'" + field + "' must hold strings, not " + json_type_name(item) + ".");
        return {};
      }
      strings.push_back(item.get<std::string>());
    }
  } else {
    fail(field, "'" + field + "' must be a string or an array of strings, not " + json_type_name(*value) + ".");
    return {};
  }
  for (const std::string& text : strings) {
    if (text.empty() || text.size() > bytes_max) {
      fail(field, "Each string of '" + field + "' must have 1 to " + std::to_string(bytes_max) + " bytes.");
      return {};
    }
  }
  return strings;
}

}  // namespace twostroke::openai
