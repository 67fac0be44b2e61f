#include "server/text/jinja/json_value.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "server/text/jinja/json_guard.h"
#include "server/text/jinja/utf8.h"

namespace twostroke::jinja {
namespace {

using Json = nlohmann::ordered_json;

Value string_value(Runtime& runtime, const std::string& bytes, bool trusted) {
  if (!utf8::is_valid(bytes)) fail("a string in the template's context is not valid UTF-8");
  return runtime.string(Text(bytes, trusted));
}

}  // namespace

Value to_value(Runtime& runtime, const Json& json, bool trusted) {
  Budget::Level level(runtime.budget());
  runtime.budget().step();
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return static_cast<double>(number);
      }
      return static_cast<std::int64_t>(number);
    }
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return string_value(runtime, json.get_ref<const std::string&>(), trusted);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(to_value(runtime, item, trusted));
      return runtime.list(std::move(items));
    }
    case Json::value_t::object: {
      Dict* const dict = runtime.dict();
      for (const auto& [key, item] : json.get_ref<const Json::object_t&>()) {
        dict->set(runtime, string_value(runtime, key, trusted), to_value(runtime, item, trusted));
      }
      return dict;
    }
    case Json::value_t::null:
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return {};
}

Value parse_json(Runtime& runtime, const Text& text) {
  runtime.budget().step_bytes(text.size());
  JsonGuard guard(runtime.limits().depth_max);
  const Status cost = guard.check(text.view());
  // A template may parse in a loop: the comparisons count as its steps.
  runtime.budget().step(static_cast<std::int64_t>(guard.name_comparisons()));
  if (!cost.ok()) fail("filter 'from_json': the text " + cost.message());
  const Json json = Json::parse(text.bytes(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) fail("filter 'from_json': the text is not JSON");
  return to_value(runtime, json, text.all_trusted());
}

}  // namespace twostroke::jinja
