#include "tests/bench/load/load_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace twostroke::load {
namespace {

bool meets(const LoadOutcome& outcome, double ttft, double tpot, std::vector<double>& gaps,
           const LoadObjectives& objectives) {
  if (!outcome.complete() || outcome.arrivals.empty()) return false;
  if (objectives.ttft > 0 && ttft > objectives.ttft) return false;
  if (objectives.tpot > 0 && tpot > objectives.tpot) return false;
  return objectives.itl <= 0 || gaps.empty() || percentiles(gaps).p99 <= objectives.itl;
}

std::string row(const char* name, const Percentiles& p) {
  char text[160];
  std::snprintf(text, sizeof(text), "%-12s %10.1f %10.1f %10.1f %10.1f %10.1f  ms\n", name, p.mean * 1e3, p.p50 * 1e3,
                p.p90 * 1e3, p.p99 * 1e3, p.max * 1e3);
  return text;
}

nlohmann::json to_json(const Percentiles& p) {
  return {{"count", p.count}, {"mean", p.mean}, {"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}, {"max", p.max}};
}

}  // namespace

Percentiles percentiles(std::vector<double>& values) {
  Percentiles result;
  if (values.empty()) return result;
  std::ranges::sort(values);
  const auto rank = [&](double share) {
    const double place = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<size_t>(std::max(place, 1.0)) - 1];
  };
  for (const double value : values) result.mean += value;
  result.count = values.size();
  result.mean /= static_cast<double>(values.size());
  result.p50 = rank(0.5);
  result.p90 = rank(0.9);
  result.p99 = rank(0.99);
  result.max = values.back();
  return result;
}

LoadReport make_report(const std::vector<LoadOutcome>& outcomes, const LoadObjectives& objectives) {
  LoadReport report;
  std::vector<double> ttfts, itls, tpots, ends;
  for (const LoadOutcome& outcome : outcomes) {
    ++report.offered;
    report.seconds = std::max(report.seconds, outcome.ended_at);
    report.late_seconds = std::max(report.late_seconds, outcome.sent_at - outcome.planned_at);
    report.prompt_tokens += outcome.prompt_tokens;
    report.cached_tokens += outcome.cached_tokens;
    report.output_tokens += outcome.output_tokens;
    if (!outcome.complete()) {
      if (report.failed++ == 0) report.first_error = outcome.error;
      continue;
    }
    ++report.complete;
    ends.push_back(outcome.ended_at - outcome.planned_at);
    if (outcome.arrivals.empty()) continue;
    const double ttft = outcome.arrivals.front() - outcome.planned_at;
    ttfts.push_back(ttft);
    std::vector<double> gaps;
    for (size_t i = 1; i < outcome.arrivals.size(); ++i) gaps.push_back(outcome.arrivals[i] - outcome.arrivals[i - 1]);
    double tpot = 0;
    if (outcome.output_tokens > 1) {
      tpot = (outcome.arrivals.back() - outcome.arrivals.front()) / (outcome.output_tokens - 1);
      tpots.push_back(tpot);
    }
    itls.insert(itls.end(), gaps.begin(), gaps.end());
    if (meets(outcome, ttft, tpot, gaps, objectives)) ++report.good;
  }
  report.ttft = percentiles(ttfts);
  report.itl = percentiles(itls);
  report.tpot = percentiles(tpots);
  report.end_to_end = percentiles(ends);
  return report;
}

std::string report_table(const LoadReport& report, const LoadObjectives& objectives) {
  char text[512];
  std::snprintf(
      text, sizeof(text),
      "%llu requests in %.1f s (%.2f/s): %llu complete, %llu failed; prompt %llu tokens (%llu cached), output "
      "%llu\n%.1f prompt tokens/s, %.1f output tokens/s; the client was at most %.1f ms late\n",
      static_cast<unsigned long long>(report.offered), report.seconds, report.offered_rate(),
      static_cast<unsigned long long>(report.complete), static_cast<unsigned long long>(report.failed),
      static_cast<unsigned long long>(report.prompt_tokens), static_cast<unsigned long long>(report.cached_tokens),
      static_cast<unsigned long long>(report.output_tokens), static_cast<double>(report.prompt_tokens) / report.seconds,
      static_cast<double>(report.output_tokens) / report.seconds, report.late_seconds * 1e3);
  std::string table = text;
  if (!report.first_error.empty()) table += "first error: " + report.first_error + "\n";
  table += "                   mean        p50        p90        p99        max\n";
  table += row("TTFT", report.ttft) + row("ITL", report.itl) + row("TPOT", report.tpot) +
           row("end to end", report.end_to_end);
  if (objectives.ttft > 0 || objectives.tpot > 0 || objectives.itl > 0) {
    std::snprintf(text, sizeof(text), "goodput %.3f requests/s: %.1f %% of those offered met their objectives\n",
                  report.goodput(), 100.0 * static_cast<double>(report.good) / static_cast<double>(report.offered));
    table += text;
  }
  return table;
}

nlohmann::json report_json(const LoadReport& report, const LoadObjectives& objectives) {
  return {{"offered", report.offered},
          {"complete", report.complete},
          {"failed", report.failed},
          {"first_error", report.first_error},
          {"seconds", report.seconds},
          {"client_late_seconds", report.late_seconds},
          {"prompt_tokens", report.prompt_tokens},
          {"cached_tokens", report.cached_tokens},
          {"output_tokens", report.output_tokens},
          {"ttft_seconds", to_json(report.ttft)},
          {"itl_seconds", to_json(report.itl)},
          {"tpot_seconds", to_json(report.tpot)},
          {"end_to_end_seconds", to_json(report.end_to_end)},
          {"objectives", {{"ttft", objectives.ttft}, {"tpot", objectives.tpot}, {"itl", objectives.itl}}},
          {"good", report.good},
          {"goodput", report.goodput()}};
}

}  // namespace twostroke::load
