#include "server/simulate/calibration_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "server/simulate/small_file.h"

namespace twostroke::simulate {
namespace {

constexpr double kCalibratedStepNsMax = 1e14;  // a day: no machine that serves takes longer for the largest step

bool get_number(const nlohmann::json& value, double& number) {
  if (!value.is_number()) return false;
  number = value.get<double>();
  return true;
}

// "...; model NAME, 123 bytes, ..." (calibration_key() of serve).
std::string model_in(const std::string& key) {
  constexpr std::string_view kBefore = "; model ";
  const size_t found = key.find(kBefore);
  if (found == std::string::npos) return {};
  const size_t begin = found + kBefore.size();
  const size_t end = std::min(key.find("; ", begin), key.size());
  const size_t size_text = key.find(" bytes, changed ", begin);
  if (size_text >= end) return {};
  const size_t comma = key.rfind(", ", size_text);
  return comma == std::string::npos || comma < begin ? std::string() : key.substr(begin, comma - begin);
}

// Letters and digits, in lower case: what names of one model have in common.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') result += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) result += c;
  }
  return result;
}

}  // namespace

std::string model_doubt(const CalibrationFile& file, const std::string& model) {
  if (file.model.empty()) return "the calibration does not say of which model it is";
  std::error_code no_matter;  // what cannot be resolved is compared as it is
  const std::string same = model.ends_with(".gguf")
                               ? std::filesystem::weakly_canonical(model, no_matter).filename().string()
                               : std::string();
  if (same.empty() ? plain(file.model).find(plain(model)) != std::string::npos : same == file.model) return {};
  return "the calibration is of the model file '" + file.model + "', and '" + model +
         "' is simulated: its step times may be those of another model";
}

Result<CalibrationFile> parse_calibration(std::string_view json, const std::string& source) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto field = [&object](const char* name) {
    return object.is_object() ? object.value(name, nlohmann::json()) : nlohmann::json();
  };
  if (field("format").is_number() && field("format") != kCalibrationFormat) {
    return invalid_argument(source +
                            " is a calibration of another version; `twostroke serve` writes a new one into its "
                            "cache folder when it starts on an idle machine");
  }
  const nlohmann::json tokens = field("token_ns");
  CalibrationFile file;
  CostCoefficients& costs = file.costs;
  bool complete = field("format").is_number() && field("knots") == nlohmann::json(kCostKnots) && tokens.is_array() &&
                  tokens.size() == kCostKnotCount && field("key").is_string();
  for (size_t i = 0; complete && i < kCostKnotCount; ++i) complete = get_number(tokens[i], costs.token_ns[i]);
  complete = complete && get_number(field("logit_ns"), costs.logit_ns) &&
             get_number(field("prefill_position_ns"), costs.prefill_position_ns) &&
             get_number(field("decode_position_ns"), costs.decode_position_ns) && costs.valid();
  const bool plausible =
      complete && costs.token_ns.back() <= kCalibratedStepNsMax &&
      std::max({costs.logit_ns, costs.prefill_position_ns, costs.decode_position_ns}) <= kCalibratedStepNsMax;
  if (!plausible) {
    return invalid_argument(source +
                            " is no calibration, or is damaged; `twostroke serve` writes one into its cache "
                            "folder when it starts on an idle machine");
  }
  file.key = field("key").get<std::string>();
  file.model = model_in(file.key);
  return file;
}

std::string calibration_text(const std::string& key, const CostCoefficients& costs) {
  const nlohmann::json file = {{"format", kCalibrationFormat},
                               {"key", key},
                               {"knots", kCostKnots},
                               {"token_ns", costs.token_ns},
                               {"logit_ns", costs.logit_ns},
                               {"prefill_position_ns", costs.prefill_position_ns},
                               {"decode_position_ns", costs.decode_position_ns}};
  return file.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Result<CalibrationFile> read_calibration(const std::string& path) {
  const Result<std::string> text = read_small_file(path);
  if (!text.ok()) return text.status();
  return parse_calibration(*text, path);
}

}  // namespace twostroke::simulate
