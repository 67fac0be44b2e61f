// Filters on single values: numbers, defaults, attributes, JSON.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "server/text/jinja/access.h"
#include "server/text/jinja/arithmetic.h"
#include "server/text/jinja/compare.h"
#include "server/text/jinja/filter_table.h"
#include "server/text/jinja/json_value.h"
#include "server/text/jinja/numbers.h"
#include "server/text/jinja/print.h"
#include "server/text/jinja/tojson.h"

namespace twostroke::jinja {
namespace {

const Value& require_number(const Parameters& parameters, std::size_t index) {
  const Value& value = parameters.require(index);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_number()) {
    fail(std::string(parameters.function()) + " needs a number, not " + std::string(type_name(value)));
  }
  return value;
}

Value filter_abs(Runtime&, const Arguments& arguments) {
  Parameters parameters("filter 'abs'", arguments, {"x"});
  const Value& value = require_number(parameters, 0);
  if (value.is_float()) return std::abs(value.number());
  return value.integer() < 0 ? negative(value) : Value(value.integer());
}

Value filter_attr(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'attr'", arguments, {"obj", "name"});
  const Value& name = parameters.require(1);
  if (!name.is_string()) fail("filter 'attr' needs the name as a str, not " + std::string(type_name(name)));
  return get_attribute_only(runtime, parameters.require(0), name);
}

Value filter_default(Runtime&, const Arguments& arguments) {
  Parameters parameters("filter 'default'", arguments, {"value", "default_value", "boolean"});
  const Value& value = parameters.require(0);
  const bool replaced = value.is_undefined() || (parameters.truth(2, false) && !is_true(value));
  if (!replaced) return value;
  return parameters.find(1) == nullptr ? Value::literal("") : *parameters.find(1);
}

Value filter_float(Runtime&, const Arguments& arguments) {
  Parameters parameters("filter 'float'", arguments, {"value", "default"});
  const Value& value = parameters.require(0);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (value.is_number()) return value.number();
  if (value.is_string()) {
    if (const std::optional<double> number = parse_float(value.view())) return *number;
  }
  return parameters.find(1) == nullptr ? Value(0.0) : *parameters.find(1);
}

Value filter_int(Runtime&, const Arguments& arguments) {
  Parameters parameters("filter 'int'", arguments, {"value", "default", "base"});
  const Value& value = parameters.require(0);
  const Value fallback = parameters.find(1) == nullptr ? Value(std::int64_t{0}) : *parameters.find(1);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (value.is_integer()) return value.integer();
  if (value.is_float()) return std::isnan(value.number()) ? fallback : Value(truncate_to_integer(value.number()));
  if (!value.is_string()) return fallback;
  if (const auto integer = parse_integer(value.view(), parameters.integer(2, 10))) return *integer;
  const std::optional<double> number = parse_float(value.view());
  return number && std::isfinite(*number) ? Value(truncate_to_integer(*number)) : fallback;
}

// Python's round(): to the nearest, exactly between two to the even one.
double round_float(double number, std::int64_t digits) {
  if (!std::isfinite(number) || digits > 400) return number;
  if (digits < -400) return std::copysign(0.0, number);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / unit) * unit;
  }
  // printf rounds the exact decimal expansion in the same way.
  const int length = std::snprintf(nullptr, 0, "%.*f", static_cast<int>(digits), number);
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), number);
  return std::strtod(text.c_str(), nullptr);
}

std::int64_t round_integer(std::int64_t number, std::int64_t digits) {
  if (digits >= 0) return number;
  if (digits < -18) return 0;
  std::int64_t unit = 1;
  for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
  const std::int64_t rest = ((number % unit) + unit) % unit;
  const std::int64_t low = number - rest;  // may pass the lowest integer only where |number| is next to it
  const bool up = rest * 2 > unit || (rest * 2 == unit && (low / unit) % 2 != 0);
  return up ? low + unit : low;
}

Value filter_round(Runtime&, const Arguments& arguments) {
  Parameters parameters("filter 'round'", arguments, {"value", "precision", "method"});
  const Value& value = require_number(parameters, 0);
  const std::int64_t digits = parameters.integer(1, 0);
  const Value* const given = parameters.find(2);
  const std::string_view method = given == nullptr ? "common" : given->is_string() ? given->view() : "";
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (method == "common") {
    if (!value.is_integer()) return round_float(value.number(), digits);
    if (std::abs(static_cast<double>(value.integer())) > 4e18) fail("filter 'round': the integer is too large");
    return round_integer(value.integer(), digits);
  }
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.number() * unit;
  if (!std::isfinite(scaled) || unit == 0.0) fail("filter 'round': the result is too large");
  // Python's are integers, which have no -0.
  return ((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / unit;
}

Value filter_filesizeformat(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'filesizeformat'", arguments, {"value", "binary"});
  const Value& value = parameters.require(0);
  const std::optional<double> parsed = value.is_string() ? parse_float(value.view()) : std::nullopt;
  const double bytes = parsed ? *parsed : require_number(parameters, 0).number();
  const bool binary = parameters.truth(1, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return runtime.string("1 Byte");
  if (bytes < base) return runtime.string(std::to_string(truncate_to_integer(bytes)) + " Bytes");
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  std::size_t prefix = 0;
  while (prefix + 1 < kPrefixes.size() && bytes >= unit * base) {
    unit *= base;
    ++prefix;
  }
  char number[400];
  std::snprintf(number, sizeof(number), "%.1f ", bytes / unit);
  const char letter = binary && prefix == 0 ? 'K' : kPrefixes[prefix];
  return runtime.string(number + std::string(1, letter) + (binary ? "iB" : "B"));
}

Value filter_from_json(Runtime& runtime, const Arguments& arguments) {
  Parameters parameters("filter 'from_json'", arguments, {"value"});
  const Value& value = parameters.require(0);
  if (value.is_undefined()) fail(*value.undefined().message);
  if (!value.is_string()) fail("filter 'from_json' needs a str, not " + std::string(type_name(value)));
  return parse_json(runtime, value.text());
}

constexpr FilterEntry kValueFilters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"d", filter_default},
    {"default", filter_default},
    {"filesizeformat", filter_filesizeformat},
    {"float", filter_float},
    {"from_json", filter_from_json},
    {"int", filter_int},
    {"round", filter_round},
    {"tojson", filter_tojson},
};

}  // namespace

FilterFunction find_value_filter(std::string_view name) { return find_in_table(kValueFilters, name); }

}  // namespace twostroke::jinja
