#include "tests/bench/load/load_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

namespace twostroke::load {
namespace {

// [0, 1). The standard's distributions differ between libraries; this does not.
double uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

bool take_number(std::string_view& text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

bool parse_part(std::string_view text, MixPart& part) {
  double prompt = 0;
  double output = 0;
  if (!take_number(text, prompt) || !take(text, '/') || !take_number(text, output)) return false;
  if (!(prompt >= 1 && prompt <= 1e6 && output >= 1 && output <= 1e6)) return false;
  part.prompt_tokens = static_cast<uint32_t>(prompt);
  part.output_tokens = static_cast<uint32_t>(output);
  part.exact = take(text, '=');
  if (take(text, '*') && !(take_number(text, part.weight) && part.weight > 0)) return false;
  return text.empty();
}

uint32_t vary(uint32_t length, std::mt19937_64& random) {
  return std::max(1U, static_cast<uint32_t>(std::lround(length * (0.8 + 0.4 * uniform(random)))));
}

Result<std::vector<PlannedRequest>> from_mix(const LoadOptions& options) {
  if (options.mix.empty()) return invalid_argument("--mix has no parts, for example \"60/128*0.7 1500/64*0.3\"");
  if (!(options.rate > 0)) return invalid_argument("--rate must be above 0");
  double whole = 0;
  for (const MixPart& part : options.mix) whole += part.weight;
  std::mt19937_64 random(options.seed);
  std::vector<PlannedRequest> plan(options.requests);
  double now = 0;
  for (PlannedRequest& request : plan) {
    now -= std::log(1 - uniform(random)) / options.rate;
    double chosen = uniform(random) * whole;
    size_t i = 0;
    while (i + 1 < options.mix.size() && chosen >= options.mix[i].weight) chosen -= options.mix[i++].weight;
    const MixPart& part = options.mix[i];
    request.at_seconds = now;
    request.prompt_tokens = part.exact ? part.prompt_tokens : vary(part.prompt_tokens, random);
    request.output_tokens = part.exact ? part.output_tokens : vary(part.output_tokens, random);
    request.shared_tokens = std::min(options.shared_tokens, request.prompt_tokens - 1);
    request.shared_seed = options.seed;
    request.text_seed = random();
  }
  return plan;
}

// "2023-11-16 18:15:46.6805900" in seconds of some day; traces stay below a month.
bool azure_seconds(std::string_view text, double& seconds) {
  if (text.size() < 19) return false;
  double part[4] = {};
  const size_t places[] = {8, 11, 14, 17};
  for (size_t i = 0; i < 4; ++i) {
    std::string_view field = text.substr(places[i], i == 3 ? std::string_view::npos : 2);
    if (!take_number(field, part[i])) return false;
  }
  seconds = ((part[0] * 24 + part[1]) * 60 + part[2]) * 60 + part[3];
  return true;
}

bool parse_azure(std::string_view line, PlannedRequest& request) {
  const size_t first = line.find(',');
  if (first == std::string_view::npos || !azure_seconds(line.substr(0, first), request.at_seconds)) return false;
  line.remove_prefix(first + 1);
  double prompt = 0;
  double output = 0;
  if (!take_number(line, prompt) || !take(line, ',') || !take_number(line, output)) return false;
  if (!(prompt >= 1 && prompt <= 1e7 && output >= 1 && output <= 1e7)) return false;
  request.prompt_tokens = static_cast<uint32_t>(prompt);
  request.output_tokens = static_cast<uint32_t>(output);
  return true;
}

bool parse_mooncake(std::string_view line, PlannedRequest& request) {
  const nlohmann::json entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!entry.is_object()) return false;
  const auto number = [&](const char* name) {
    const auto found = entry.find(name);
    return found != entry.end() && found->is_number() ? found->get<double>() : -1.0;
  };
  const double prompt = number("input_length");
  const double output = number("output_length");
  request.at_seconds = number("timestamp") / 1000;
  if (!(request.at_seconds >= 0 && prompt >= 1 && prompt <= 1e7 && output >= 1 && output <= 1e7)) return false;
  request.prompt_tokens = static_cast<uint32_t>(prompt);
  request.output_tokens = static_cast<uint32_t>(output);
  const auto ids = entry.find("hash_ids");
  if (ids == entry.end()) return true;
  if (!ids->is_array()) return false;
  for (const auto& id : *ids) {
    if (!id.is_number_unsigned()) return false;
    request.blocks.push_back(id.get<uint64_t>());
  }
  return true;
}

Result<std::vector<PlannedRequest>> from_trace(const LoadOptions& options) {
  if (!(options.trace_speed > 0)) return invalid_argument("--trace-speed must be above 0");
  std::ifstream file(options.trace);
  if (!file) return not_found("cannot read the trace " + options.trace);
  std::mt19937_64 random(options.seed);
  std::vector<PlannedRequest> plan;
  std::string line;
  for (uint64_t number = 1; plan.size() < options.requests && std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("TIMESTAMP"))) continue;
    PlannedRequest request;
    if (!(line.front() == '{' ? parse_mooncake(line, request) : parse_azure(line, request))) {
      return invalid_argument(options.trace + ", line " + std::to_string(number) +
                              ": neither \"TIMESTAMP,ContextTokens,GeneratedTokens\" nor an object with timestamp, "
                              "input_length and output_length");
    }
    if (options.prompt_max > 0) request.prompt_tokens = std::min(request.prompt_tokens, options.prompt_max);
    if (options.output_max > 0) request.output_tokens = std::min(request.output_tokens, options.output_max);
    request.text_seed = random();
    plan.push_back(std::move(request));
  }
  if (plan.empty()) return invalid_argument("the trace " + options.trace + " holds no requests");
  std::ranges::stable_sort(plan, {}, &PlannedRequest::at_seconds);
  const double begin = plan.front().at_seconds;
  for (PlannedRequest& request : plan) request.at_seconds = (request.at_seconds - begin) / options.trace_speed;
  return plan;
}

}  // namespace

Result<std::vector<MixPart>> parse_mix(const std::string& text) {
  std::vector<MixPart> mix;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find_first_of(" ,", begin), text.size());
    if (end > begin) {
      MixPart part;
      if (!parse_part(std::string_view(text).substr(begin, end - begin), part)) {
        return invalid_argument("--mix: '" + text.substr(begin, end - begin) +
                                "' is not PROMPT/OUTPUT or PROMPT/OUTPUT*WEIGHT, for example 1500/64*0.3");
      }
      mix.push_back(part);
    }
    begin = end + 1;
  }
  return mix;
}

Result<std::vector<PlannedRequest>> make_plan(const LoadOptions& options) {
  if (options.requests < 1 || options.requests > kPlanRequestsMax) {
    return invalid_argument("--requests must be from 1 to " + std::to_string(kPlanRequestsMax));
  }
  return options.trace.empty() ? from_mix(options) : from_trace(options);
}

}  // namespace twostroke::load
