#include "server/openai/objectives.h"

#include <charconv>
#include <string>
#include <string_view>

#include "server/http/ascii.h"

namespace twostroke::openai {
namespace {

// 0 is none.
TimeNs to_ns(double ms) { return static_cast<TimeNs>(ms * static_cast<double>(kMillisecondNs)); }

bool is_objective(double ms) { return ms >= 1e-3 && ms <= kObjectiveMsMax; }

constexpr const char* kTtftHeader = "x-slo-ttft-ms";
constexpr const char* kTpotHeader = "x-slo-tpot-ms";

constexpr const char* kBounds = "a number of milliseconds from 0.001 to 86400000";

TimeNs read_one(FieldReader& fields, const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return 0;
  if (!found->is_number() || !is_objective(found->get<double>())) {
    fields.fail(std::string("slo.") + name, std::string("'slo.") + name + "' must be " + kBounds + ".");
    return 0;
  }
  return to_ns(found->get<double>());
}

std::optional<ApiError> read_header(const http::HttpRequest& request, const char* name, TimeNs& objective_ns) {
  const std::string_view text = request.header(name);
  for (const auto& [header_name, value] : request.headers) {
    if (!http::equal_ignoring_case(header_name, name) || value == text) continue;
    return bad_field(name, std::string("The header '") + name + "' is there twice, with different values: send one.");
  }
  if (text.empty()) return std::nullopt;
  double ms = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), ms);
  if (fault != std::errc() || end != text.data() + text.size() || !is_objective(ms)) {
    return bad_field(name, std::string("The header '") + name + "' must be " + kBounds + ".");
  }
  if (objective_ns == 0) objective_ns = to_ns(ms);
  return std::nullopt;
}

}  // namespace

Objectives read_objectives(FieldReader& fields) {
  const Json* slo = fields.find("slo");
  if (slo == nullptr) return {};
  if (!slo->is_object()) {
    fields.fail("slo", "'slo' must be an object with 'ttft_ms', 'tpot_ms' or both, not " + json_type_name(*slo) + ".");
    return {};
  }
  for (const auto& [name, value] : slo->items()) {
    if (name == "ttft_ms" || name == "tpot_ms") continue;
    fields.fail("slo." + name.substr(0, 200), "'slo' knows 'ttft_ms' and 'tpot_ms' only.");
    return {};
  }
  return {.ttft_ns = read_one(fields, *slo, "ttft_ms"), .tpot_ns = read_one(fields, *slo, "tpot_ms")};
}

std::optional<ApiError> add_header_objectives(const http::HttpRequest& request, Objectives& objectives) {
  if (auto error = read_header(request, kTtftHeader, objectives.ttft_ns)) return error;
  return read_header(request, kTpotHeader, objectives.tpot_ns);
}

std::optional<ApiError> refuse_header_objectives(const http::HttpRequest& request) {
  for (const auto& [header_name, value] : request.headers) {
    if (value.empty()) continue;  // as elsewhere
    for (const char* name : {kTtftHeader, kTpotHeader}) {
      if (!http::equal_ignoring_case(header_name, name)) continue;
      return bad_field(name, std::string("The header '") + name + "' is not supported by this endpoint: leave it out.");
    }
  }
  return std::nullopt;
}

}  // namespace twostroke::openai
