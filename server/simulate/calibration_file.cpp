#include "server/simulate/calibration_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/simulate/small_file.h"

namespace twostroke::simulate {
namespace {

bool get_number(const nlohmann::json& value, double& number) {
  if (!value.is_number()) return false;
  number = value.get<double>();
  return true;
}

}  // namespace

Result<CalibrationFile> parse_calibration(std::string_view json, const std::string& source) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto field = [&object](const char* name) {
    return object.is_object() ? object.value(name, nlohmann::json()) : nlohmann::json();
  };
  const nlohmann::json tokens = field("token_ns");
  const bool same_knots = field("knots") == nlohmann::json(kCostKnots);
  CalibrationFile file;
  bool complete = same_knots && tokens.is_array() && tokens.size() == kCostKnotCount && field("key").is_string();
  for (size_t i = 0; complete && i < kCostKnotCount; ++i) complete = get_number(tokens[i], file.costs.token_ns[i]);
  complete = complete && get_number(field("logit_ns"), file.costs.logit_ns) &&
             get_number(field("prefill_position_ns"), file.costs.prefill_position_ns) &&
             get_number(field("decode_position_ns"), file.costs.decode_position_ns) && file.costs.valid();
  if (!complete) {
    return invalid_argument(source +
                            " is no calibration of this version; `twostroke serve` writes one into its cache folder "
                            "when it starts on an idle machine");
  }
  file.key = field("key").get<std::string>();
  return file;
}

Result<CalibrationFile> read_calibration(const std::string& path) {
  const Result<std::string> text = read_small_file(path);
  if (!text.ok()) return text.status();
  return parse_calibration(*text, path);
}

}  // namespace twostroke::simulate
