#include "server/simulate/calibration_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "server/simulate/small_file.h"

namespace twostroke::simulate {
namespace {

constexpr size_t kKeyShownBytesMax = 200;

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

// What is between `before` and the end of its part of the key; "": there is no such part.
std::string_view part_of(std::string_view key, std::string_view before) {
  const size_t found = key.find(before);
  if (found == std::string_view::npos) return {};
  std::string_view part = key.substr(found + before.size());
  part = part.substr(0, part.find("; "));
  while (part.ends_with(' ')) part.remove_suffix(1);
  return part;
}

// The number that `text` begins with, which is taken from it together with `after`; 0: it does not begin so.
uint32_t take_number(std::string_view& text, std::string_view after) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.starts_with(after)) return 0;
  text.remove_prefix(after.size());
  return number;
}

void read_key(CalibrationFile& file) {
  file.model = model_in(file.key);
  file.backend = part_of(file.key, "; backend ");
  file.processor = part_of(file.key, "; processor ");
  std::string_view steps = part_of(file.key, "; steps of ");
  file.step_tokens_max = take_number(steps, " tokens and ");
  file.step_rows_max = take_number(steps, " rows");
}

// As it names itself: "cpu (avx2, 2 threads)".
std::string backend_words(const CalibrationFile& file) { return file.backend.substr(file.backend.find(' ') + 1); }

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

std::string machine_doubt(const CalibrationFile& file, const Hardware& hardware) {
  if (!hardware.accelerator || (file.backend != "cpu" && !file.backend.starts_with("cpu "))) return {};
  return "the calibration is of a processor, " + backend_words(file) + ", and " + hardware.name +
         " is none: its step times are those of another machine";
}

std::string limits_doubt(const CalibrationFile& file, const SchedulerLimits& limits) {
  const uint32_t rows = std::min(limits.max_running, limits.max_step_tokens);
  if (file.step_tokens_max == 0 || file.step_rows_max == 0) return {};
  if (file.step_tokens_max == limits.max_step_tokens && file.step_rows_max == rows) return {};
  return "the calibrated server had steps of " + std::to_string(file.step_tokens_max) + " tokens and " +
         std::to_string(file.step_rows_max) + " sequences, and " + std::to_string(limits.max_step_tokens) + " and " +
         std::to_string(rows) + " are simulated: to predict that server give --max-step-tokens " +
         std::to_string(file.step_tokens_max) + " --max-running " + std::to_string(file.step_rows_max);
}

std::string calibrated_words(const CalibrationFile& file) {
  std::string words;
  for (const std::string& part : {file.model, backend_words(file), file.processor}) {
    if (!part.empty()) words += (words.empty() ? "" : ", ") + part;
  }
  return words.empty() ? file.key.substr(0, kKeyShownBytesMax) : words;
}

Result<CalibrationFile> parse_calibration(std::string_view json, const std::string& source) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const auto field = [&object](const char* name) {
    return object.is_object() ? object.value(name, nlohmann::json()) : nlohmann::json();
  };
  if (field("format").is_number() && field("format") != kCalibrationFormat) {
    return unsupported(source +
                       " is a calibration of another version; `twostroke serve` writes a new one into its cache "
                       "folder when it starts on an idle machine");
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
      complete && costs.token_ns.front() >= kCalibratedStepNsMin && costs.token_ns.back() <= kCalibratedStepNsMax &&
      std::max({costs.logit_ns, costs.prefill_position_ns, costs.decode_position_ns}) <= kCalibratedStepNsMax;
  if (!plausible) {
    return invalid_argument(source +
                            " is no calibration, or is damaged; `twostroke serve` writes one into its cache "
                            "folder when it starts on an idle machine");
  }
  file.key = field("key").get<std::string>();
  read_key(file);
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
