#include "tests/bench/load/load_plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <random>

#include "server/simulate/trace_file.h"

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
  if (take(text, '*') && !(take_number(text, part.weight) && part.weight > 0 && part.weight <= 1e6)) return false;
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
    const uint32_t prompt = part.exact ? part.prompt_tokens : vary(part.prompt_tokens, random);
    request.output_tokens = part.exact ? part.output_tokens : vary(part.output_tokens, random);
    const uint32_t shared = std::min(options.shared_tokens, prompt - 1);
    if (shared > 0) request.prompt.push_back({.seed = options.seed, .length = shared});
    request.prompt.push_back({.seed = random(), .length = prompt - shared});
  }
  return plan;
}

// The first so many tokens.
void cut(std::vector<simulate::TokenRun>& prompt, uint32_t tokens) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i].length < tokens) {
      tokens -= prompt[i].length;
      continue;
    }
    prompt[i].length = tokens;
    prompt.resize(i + 1);
    return;
  }
}

Result<std::vector<PlannedRequest>> from_trace(const LoadOptions& options) {
  if (!(options.trace_speed > 0)) return invalid_argument("--trace-speed must be above 0");
  const Result<std::unique_ptr<simulate::Workload>> trace = simulate::open_trace(options.trace, options.seed);
  if (!trace.ok()) return trace.status();
  std::vector<PlannedRequest> plan;
  simulate::Arrival arrival;
  while (plan.size() < options.requests) {
    const Result<bool> more = (*trace)->next(arrival);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (options.prompt_max > 0) cut(arrival.prompt, options.prompt_max);
    if (options.output_max > 0) arrival.output_tokens = std::min(arrival.output_tokens, options.output_max);
    plan.push_back({.at_seconds = to_seconds(arrival.time) / options.trace_speed,
                    .output_tokens = arrival.output_tokens,
                    .prompt = std::move(arrival.prompt)});
  }
  if (plan.empty()) return invalid_argument("the trace " + options.trace + " holds no requests");
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
