#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ostream>

#include "kernels/printable.h"
#include "server/simulate/comparison.h"
#include "server/simulate/report.h"

namespace twostroke::simulate {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return text;
}

// Three digits that matter, with thousands apart: 0.0123, 4.56, 78.9, 1,234.
std::string number(double value) {
  if (value == 0) return "0";
  if (value < 0.1) return format("%.3g", value);
  if (value < 10) return format("%.2f", value);
  if (value < 100) return format("%.1f", value);
  std::string digits = format("%.0f", value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

// A whole number, with thousands apart.
std::string count(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string percent(double part, double whole) {
  const double share = whole > 0 ? 100 * part / whole : 0;
  return format(share < 10 ? "%.1f%%" : "%.0f%%", share);
}

// A share of requests: all of them only where it is all of them.
std::string share(double part) {
  const std::string text = format("%.4g%%", 100 * part);
  return part < 1 && text == "100%" ? "99.99%" : text;
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

// Names come from files of others: printable.
void line(std::ostream& out, const char* name, const std::string& text) {
  out << format("%-12s", name) << printable(text) << "\n";
}

void row(std::ostream& out, const std::string& name, const std::vector<std::string>& cells) {
  out << format("  %-24s", printable(name).c_str());
  for (const std::string& cell : cells) out << format(" %12s", cell.c_str());
  out << "\n";
}

void durations(std::ostream& out, const char* name, const Histogram& h, double unit) {
  if (h.count() == 0) return;
  row(out, name,
      {number(h.mean_seconds() * unit), number(h.quantile_seconds(0.5) * unit), number(h.quantile_seconds(0.9) * unit),
       number(h.quantile_seconds(0.99) * unit), number(h.max_seconds() * unit)});
}

std::string targets(const Targets& targets) {
  std::string text;
  if (targets.ttft_ms) text += "TTFT " + number(*targets.ttft_ms) + " ms";
  if (targets.tpot_ms) text += (text.empty() ? "" : ", ") + std::string("TPOT ") + number(*targets.tpot_ms) + " ms";
  return text;
}

// "TTFT: missed by 7 of 500 (p99 1,105 ms)"
std::string misses(const char* name, uint64_t missed, const SimulationResult& result, const Histogram& times,
                   double good_share) {
  std::string text = std::string(name) + " is missed by " + count(missed) + " of " + count(result.offered);
  if (times.count() == 0) return text;
  return text + " (" + format("p%.4g ", 100 * good_share) + number(times.quantile_seconds(good_share) * 1e3) + " ms)";
}

// Why a higher rate is none: what failed at the lowest rate that did, and by how much.
std::string beyond(const Report& report, const MaxRate& found) {
  const SimulationResult& failed = found.failed;
  constexpr const char* kNames[] = {"TTFT", "TPOT", "refusals"};
  std::string text = kNames[static_cast<size_t>(mostly_missed(failed))];
  text += ": at " + number(found.failed_rate) + " " + report.rate_unit + " ";
  text += failed.stopped ? "too many do not: " : "only " + share(failed.good_share()) + " do. ";
  const char* separator = "";
  if (report.targets.ttft_ms) {
    text += misses("TTFT", failed.ttft_missed, failed, failed.ttft, report.good_share_min);
    separator = ", ";
  }
  if (report.targets.tpot_ms) {
    text += separator + misses("TPOT", failed.tpot_missed, failed, failed.tpot, report.good_share_min);
  }
  const uint64_t refused = failed.refused + failed.too_long;
  return refused == 0 ? text : text + ", " + count(refused) + " are refused or too long";
}

// A row of three: prefill, decode, and both.
template <typename Cell>
void phases(std::ostream& out, const char* name, const GroupResult& group, Cell cell) {
  PhaseAccount both = group.accounts.prefill;
  both += group.accounts.decode;
  both.step_seconds = both.seconds;
  row(out, name, {cell(group.accounts.prefill), cell(group.accounts.decode), cell(both)});
}

void write_group(const GroupResult& group, bool named, std::ostream& out) {
  const StepAccounts& accounts = group.accounts;
  const double busy = accounts.busy_seconds();
  const SimMachine& machine = group.spec.machine;
  out << "\n";
  const char* role = group.spec.role == Role::kPrefill ? "prefill machines" : "decode machines";
  row(out, named ? role : "steps", {"prefill", "decode", "both"});
  phases(out, "share of busy time", group, [&](const PhaseAccount& p) { return percent(p.seconds, busy); });
  phases(out, "tokens", group, [](const PhaseAccount& p) { return count(p.tokens); });
  phases(out, "tokens/s of its time", group,
         [](const PhaseAccount& p) { return number(ratio(static_cast<double>(p.tokens), p.seconds)); });
  phases(out, "arithmetic used of steps", group,
         [&](const PhaseAccount& p) { return percent(p.flops, p.step_seconds * machine.peak_flops); });
  phases(out, "bandwidth used of steps", group,
         [&](const PhaseAccount& p) { return percent(p.bytes, p.step_seconds * machine.peak_bytes_per_second); });
  phases(out, "bound by arithmetic", group,
         [](const PhaseAccount& p) { return percent(p.bound.compute, p.bound.total()); });
  phases(out, "bound by bandwidth", group,
         [](const PhaseAccount& p) { return percent(p.bound.memory, p.bound.total()); });
  if (group.spec.link_seconds_per_step > 0) {
    phases(out, "bound by the link", group,
           [](const PhaseAccount& p) { return percent(p.bound.link, p.bound.total()); });
  }
  phases(out, "bound by step overhead", group,
         [](const PhaseAccount& p) { return percent(p.bound.overhead, p.bound.total()); });
  out << "\n";
  line(out, "steps",
       count(accounts.steps) + ", " +
           percent(static_cast<double>(accounts.mixed_steps), static_cast<double>(accounts.steps)) +
           " of them with both phases; busy " + percent(group.busy_share, 1) + " of the time");
  line(out, "KV memory",
       percent(group.kv_used_share, 1) + " used while busy; requests waited for it in " +
           percent(group.kv_waiting_seconds, busy) + " of busy time; " + count(group.counts.preemptions) +
           " preemptions");
  const Replica::Counts& counts = group.counts;
  line(out, "prompts",
       count(counts.computed_tokens) + " tokens computed, " + count(counts.cached_tokens) + " cached, " +
           (counts.remote_tokens > 0 ? count(counts.remote_tokens) + " transferred, " : std::string()) +
           count(counts.recomputed_tokens) + " computed again");
  if (group.place_waiting_seconds > 0) {
    line(out, "places",
         "requests waited for one in " + percent(group.place_waiting_seconds, busy) + " of busy time: --max-running");
  }
  const Binding binding = binding_of(group);
  line(out, "binds", std::string(binding.resource) + " (" + percent(binding.share, 1) + " of busy time)");
  if (!group.spec.notice.empty()) line(out, "note", group.spec.notice);
}

std::string offered_rate(const SimulationResult& result) {
  return number(ratio(static_cast<double>(result.offered), result.arrival_seconds)) + "/s";
}

// "keeps up: ..."
std::string load(const SimulationResult& result) {
  if (load_of(result) == Load::kNoneFits) return "nothing to judge: none of the requests fits";
  constexpr const char* kVerdicts[] = {"keeps up", "falls behind", "too short a run to tell whether it keeps up"};
  return kVerdicts[static_cast<size_t>(load_of(result))] + std::string(": the last answer comes ") +
         number(tail_seconds(result)) + " s after the last request, " + number(lone_tail_seconds(result)) +
         " s if each had a machine to itself";
}

void write_fleet(const Report& report, const FleetReport& fleet, std::ostream& out) {
  const SimulationResult& result = fleet.result;
  const double span = span_seconds(result);
  out << "\n";
  line(out, "fleet", fleet.fleet.name);
  for (const GroupResult& group : result.groups) {
    const SimMachine& machine = group.spec.machine;
    const Role role = group.spec.role;
    line(out,
         role == Role::kPrefill  ? "  prefill"
         : role == Role::kDecode ? "  decode"
                                 : "",
         std::to_string(group.replicas) + (group.replicas == 1 ? " replica of " : " replicas of ") +
             group.spec.hardware + ": " + number(machine.peak_flops / 1e12) + " TFLOP/s, " +
             number(machine.peak_bytes_per_second / 1e9) + " GB/s, KV for " +
             count(uint64_t{static_cast<uint32_t>(group.spec.info.block_count)} *
                   static_cast<uint32_t>(group.spec.info.block_size)) +
             " tokens each");
  }
  if (fleet.max_rate && fleet.max_rate->failed.none_fits()) {
    line(out, "max rate", "none: none of the requests fits");
    return;
  }
  if (fleet.max_rate && fleet.max_rate->rate == 0) {
    line(out, "max rate", "none: " + targets(report.targets) + " are missed however slowly requests arrive");
    line(out, "limited by", beyond(report, *fleet.max_rate));
    return;
  }
  if (fleet.max_rate) {
    line(out, "max rate",
         number(fleet.max_rate->rate) + " " + report.rate_unit + ", the highest of " +
             std::to_string(fleet.max_rate->tries) + " tried at which " + share(report.good_share_min) +
             " of requests keep within " + targets(report.targets) + "; what follows is at that rate");
    line(out, "limited by", beyond(report, *fleet.max_rate));
  }
  line(out, "requests",
       count(result.offered) + " offered (" + offered_rate(result) + " as drawn), " + count(result.finished) +
           " finished, " + count(result.refused) + " refused, " + count(result.too_long) + " too long, in " +
           number(result.seconds) + " s");
  line(out, "load", load(result));
  if (report.targets.any()) {
    line(out, "goodput",
         share(result.good_share()) + " of requests within " + targets(report.targets) + ": " +
             number(ratio(static_cast<double>(result.good), span)) + "/s");
  }
  line(out, "throughput",
       number(ratio(static_cast<double>(result.prompt_tokens), span)) + " prompt tokens/s, " +
           number(ratio(static_cast<double>(result.output_tokens), span)) + " output tokens/s");
  if (const std::optional<TokenPrice> price = token_price(fleet)) {
    line(out, "price",
         number(price->output) + " per million output tokens, " + number(price->all) + " per million tokens, at " +
             number(*fleet.fleet.price_per_hour()) + " per hour");
  } else if (const std::optional<double> per_hour = fleet.fleet.price_per_hour()) {
    line(out, "price", "none for tokens, as no answer is good; " + number(*per_hour) + " per hour");
  }
  out << "\n";
  row(out, "latency", {"mean", "p50", "p90", "p99", "max"});
  durations(out, "TTFT, ms", result.ttft, 1e3);
  durations(out, "TPOT, ms", result.tpot, 1e3);
  durations(out, "ITL, ms", result.itl, 1e3);
  durations(out, "end to end, s", result.end_to_end, 1);
  for (const GroupResult& group : result.groups) write_group(group, fleet.fleet.disaggregated(), out);
  if (fleet.fleet.disaggregated()) {
    line(out, "transfers",
         count(result.transfers) + " of " +
             number(ratio(result.transfer_bytes, static_cast<double>(result.transfers)) / 1e6) +
             " MB on average; links busy " +
             percent(result.link_seconds, result.seconds * fleet.fleet.groups[0].replicas) + " of the time");
  }
}

// "H100, L40S and 2xL4"
std::string names(const Report& report, const std::vector<size_t>& places) {
  std::string text;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i > 0) text += i + 1 == places.size() ? " and " : ", ";
    text += report.fleets[places[i]].fleet.name;
  }
  return text;
}

std::string best_line(const Report& report, const Comparison& comparison) {
  const bool rates = report.fleets.front().max_rate.has_value();
  if (comparison.best) {
    std::string text = report.fleets[*comparison.best].fleet.name;
    if (comparison.times_the_next > 0) text += ", " + number(comparison.times_the_next) + " times the next";
    return text;
  }
  if (comparison.equals.empty()) {
    return rates ? "none: the targets are met at no rate" : "none: no fleet gives a good answer";
  }
  std::string text = "none; " + names(report, comparison.equals);
  if (comparison.too_short) {
    return text +
           " are not told apart by so short a run: its last answers take longer than its requests come; "
           "simulate more (--requests)";
  }
  text += comparison.keep_up ? " keep up with the offered " + offered_rate(report.fleets.front().result)
                             : " are within " + percent(comparison.within, 1) + " of each other";
  if (!report.targets.any()) return text + ". --ttft-ms, --tpot-ms and --find-max-rate tell more apart";
  return rates ? text : text + ". --find-max-rate tells more apart";
}

// One line for each fleet, and which is ahead.
void write_comparison(const Report& report, std::ostream& out) {
  const bool rates = report.fleets.front().max_rate.has_value();
  const auto p99_ms = [](const Histogram& h) { return h.count() == 0 ? "-" : number(h.quantile_seconds(0.99) * 1e3); };
  out << "\ncomparison\n";
  row(out, "fleet", {rates ? "max rate" : "goodput/s", "TTFT p99 ms", "TPOT p99 ms", "price/Mtok", "binds"});
  for (const FleetReport& fleet : report.fleets) {
    if (fleet.max_rate && fleet.max_rate->rate == 0) {  // there is no run to tell of
      row(out, fleet.fleet.name, {"none", "-", "-", "-", "-"});
      continue;
    }
    std::string binds;
    for (const GroupResult& group : fleet.result.groups) {
      binds += (binds.empty() ? "" : ", ") + std::string(binding_of(group).resource);
    }
    const std::optional<TokenPrice> price = token_price(fleet);
    row(out, fleet.fleet.name,
        {number(worth_of(fleet)), p99_ms(fleet.result.ttft), p99_ms(fleet.result.tpot),
         price ? number(price->output) : "-", binds});
  }
  const Comparison comparison = compare(report);
  out << "best: " << printable(best_line(report, comparison)) << "\n";
  if (!comparison.unpriced.empty()) {
    out << "cheapest: not known: " << printable(names(report, comparison.unpriced)) << " "
        << (comparison.unpriced.size() == 1 ? "has" : "have") << " no price (--price)\n";
  }
  if (!comparison.cheapest) return;
  const FleetReport& cheapest = report.fleets[*comparison.cheapest];
  out << "cheapest: " << printable(cheapest.fleet.name) << ", " << number(token_price(cheapest)->output)
      << " per million output tokens" << (rates ? " at its highest rate" : "") << "; the next "
      << number(comparison.next_price) << "\n";
}

}  // namespace

void write_text(const Report& report, std::ostream& out) {
  const Model& model = report.model;
  line(out, "model",
       model.shape.name + ": " + number(model.shape.parameters() / 1e9) + " billion parameters, weights " +
           model.weights + " (" + number(model.held_bytes / 1e9) + " GB), KV " +
           number(model.kv_bytes_per_token / 1e3) + " kB a token");
  line(out, "workload", report.workload);
  line(out, "router", router_name(report.router));
  const SchedulerLimits serve = {};
  std::string scheduler = "steps of " + count(report.limits.max_step_tokens) + " tokens, " +
                          count(report.limits.max_running) + " sequences running at most, order " +
                          std::string(name_of(report.limits.order));
  if (report.limits.max_step_tokens != serve.max_step_tokens || report.limits.max_running != serve.max_running) {
    scheduler += " (serve has " + count(serve.max_step_tokens) + " and " + count(serve.max_running) +
                 " unless --max-step-tokens and --max-running say otherwise)";
  }
  line(out, "scheduler", scheduler);
  if (!report.calibration.empty()) line(out, "step times", "as calibrated: " + report.calibration_words);
  if (!report.calibration_doubt.empty()) line(out, "warning", report.calibration_doubt);
  for (const FleetReport& fleet : report.fleets) write_fleet(report, fleet, out);
  if (report.fleets.size() > 1) write_comparison(report, out);
}

}  // namespace twostroke::simulate
