#include <nlohmann/json.hpp>
#include <ostream>

#include "server/simulate/comparison.h"
#include "server/simulate/report.h"

namespace twostroke::simulate {
namespace {

using nlohmann::ordered_json;

// Of none there is nothing to say: null, which no reader takes for an instant.
ordered_json durations(const Histogram& histogram) {
  if (histogram.count() == 0) {
    return {{"count", 0},
            {"mean_seconds", nullptr},
            {"p50_seconds", nullptr},
            {"p90_seconds", nullptr},
            {"p99_seconds", nullptr},
            {"max_seconds", nullptr}};
  }
  return {{"count", histogram.count()},
          {"mean_seconds", histogram.mean_seconds()},
          {"p50_seconds", histogram.quantile_seconds(0.5)},
          {"p90_seconds", histogram.quantile_seconds(0.9)},
          {"p99_seconds", histogram.quantile_seconds(0.99)},
          {"max_seconds", histogram.max_seconds()}};
}

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

ordered_json bound_shares(const BoundSeconds& bound) {
  const double all = bound.total();
  return {{"arithmetic", share_of(bound.compute, all)},
          {"memory_bandwidth", share_of(bound.memory, all)},
          {"link", share_of(bound.link, all)},
          {"overhead", share_of(bound.overhead, all)}};
}

ordered_json phase(const PhaseAccount& account, const MachineSpec& spec, double busy_seconds) {
  return {{"tokens", account.tokens},
          {"seconds", account.seconds},
          {"share_of_busy_time", share_of(account.seconds, busy_seconds)},
          {"tokens_per_second", share_of(static_cast<double>(account.tokens), account.seconds)},
          {"arithmetic_utilisation", share_of(account.flops, account.step_seconds * spec.machine.peak_flops)},
          {"bandwidth_utilisation", share_of(account.bytes, account.step_seconds * spec.machine.peak_bytes_per_second)},
          {"bound_by", bound_shares(account.bound)}};
}

const char* role_name(Role role) {
  return role == Role::kPrefill ? "prefill" : role == Role::kDecode ? "decode" : "both";
}

ordered_json group_json(const GroupResult& group) {
  const StepAccounts& accounts = group.accounts;
  const double busy = accounts.busy_seconds();
  const Binding binding = binding_of(group);
  PhaseAccount both = accounts.prefill;
  both += accounts.decode;
  both.step_seconds = busy;
  ordered_json json = {
      {"role", role_name(group.spec.role)},
      {"hardware", group.spec.hardware},
      {"replicas", group.replicas},
      {"kv_tokens_per_replica", int64_t{group.spec.info.block_count} * group.spec.info.block_size},
      {"steps", accounts.steps},
      {"mixed_steps", accounts.mixed_steps},
      {"busy_seconds", busy},
      {"busy_share", group.busy_share},
      {"prefill", phase(accounts.prefill, group.spec, busy)},
      {"decode", phase(accounts.decode, group.spec, busy)},
      {"all", phase(both, group.spec, busy)},
      {"binds", binding.resource},
      {"binds_share", binding.share},
      {"kv_used_share", group.kv_used_share},
      {"kv_waiting_share", share_of(group.kv_waiting_seconds, busy)},
      {"place_waiting_share", share_of(group.place_waiting_seconds, busy)},
      {"computed_prompt_tokens", group.counts.computed_tokens},
      {"cached_prompt_tokens", group.counts.cached_tokens},
      {"remote_prompt_tokens", group.counts.remote_tokens},
      {"recomputed_tokens", group.counts.recomputed_tokens},
      {"preemptions", group.counts.preemptions},
  };
  if (!group.spec.notice.empty()) json["notice"] = group.spec.notice;
  return json;
}

ordered_json load_json(const SimulationResult& result) {
  constexpr const char* kLoads[] = {"keeps_up", "falls_behind", "too_short_to_tell", "none_fits"};
  return {{"verdict", kLoads[static_cast<size_t>(load_of(result))]},
          {"tail_seconds", tail_seconds(result)},
          {"lone_tail_seconds", lone_tail_seconds(result)}};
}

// Null: there is none.
ordered_json comparison_json(const Report& report) {
  const Comparison comparison = compare(report);
  const auto name = [&report](std::optional<size_t> place) {
    return place ? ordered_json(report.fleets[*place].fleet.name) : ordered_json(nullptr);
  };
  ordered_json json = {{"best", name(comparison.best)}, {"equals", ordered_json::array()}};
  if (comparison.times_the_next > 0) json["times_the_next"] = comparison.times_the_next;
  for (const size_t place : comparison.equals) json["equals"].push_back(name(place));
  if (!comparison.equals.empty()) {
    json["equal_as"] = comparison.keep_up     ? "they_keep_up"
                       : comparison.too_short ? "the_run_is_too_short"
                                              : "they_differ_by_noise";
  }
  json["cheapest"] = name(comparison.cheapest);
  for (const size_t place : comparison.unpriced) json["without_price"].push_back(name(place));
  return json;
}

ordered_json fleet_json(const Report& report, const FleetReport& fleet) {
  const SimulationResult& result = fleet.result;
  const double span = span_seconds(result);
  ordered_json json = {{"fleet", fleet.fleet.name}};
  if (fleet.max_rate) {
    const SimulationResult& failed = fleet.max_rate->failed;
    constexpr const char* kMisses[] = {"ttft", "tpot", "refusals"};
    json["max_rate"] = {{"rate", fleet.max_rate->rate},
                        {"unit", report.rate_unit},
                        {"tries", fleet.max_rate->tries},
                        {"limited_by", kMisses[static_cast<size_t>(mostly_missed(failed))]},
                        {"failed_rate", fleet.max_rate->failed_rate},
                        {"failed",
                         {{"offered", failed.offered},
                          {"good", failed.good},
                          {"ttft_missed", failed.ttft_missed},
                          {"tpot_missed", failed.tpot_missed},
                          {"refused", failed.refused},
                          {"too_long", failed.too_long},
                          {"whole_run", !failed.stopped}}}};
  }
  json["requests"] = {{"offered", result.offered},
                      {"finished", result.finished},
                      {"refused", result.refused},
                      {"too_long", result.too_long},
                      {"good", result.good},
                      {"offered_per_second", share_of(static_cast<double>(result.offered), result.arrival_seconds)}};
  if (result.offered > 0) json["load"] = load_json(result);
  if (report.targets.any()) {
    json["goodput"] = {{"share", result.good_share()},
                       {"requests_per_second", share_of(static_cast<double>(result.good), span)}};
  }
  json["seconds"] = result.seconds;
  json["span_seconds"] = span;  // what rates and the price are over
  json["prompt_tokens"] = result.prompt_tokens;
  json["output_tokens"] = result.output_tokens;
  json["prompt_tokens_per_second"] = share_of(static_cast<double>(result.prompt_tokens), span);
  json["output_tokens_per_second"] = share_of(static_cast<double>(result.output_tokens), span);
  json["ttft"] = durations(result.ttft);
  json["tpot"] = durations(result.tpot);
  json["itl"] = durations(result.itl);
  json["end_to_end"] = durations(result.end_to_end);
  for (const GroupResult& group : result.groups) json["groups"].push_back(group_json(group));
  if (fleet.fleet.disaggregated()) {
    json["transfers"] = {
        {"count", result.transfers},
        {"bytes", result.transfer_bytes},
        {"link_busy_share", share_of(result.link_seconds, result.seconds * fleet.fleet.groups[0].replicas)}};
  }
  if (const std::optional<TokenPrice> price = token_price(fleet)) {
    json["price"] = {{"per_hour", *fleet.fleet.price_per_hour()},
                     {"per_million_output_tokens", price->output},
                     {"per_million_tokens", price->all}};
  }
  return json;
}

}  // namespace

void write_json(const Report& report, std::ostream& out) {
  ordered_json json = {{"model",
                        {{"name", report.model.shape.name},
                         {"parameters", report.model.shape.parameters()},
                         {"weights", report.model.weights},
                         {"weight_bytes", report.model.held_bytes},
                         {"kv_bytes_per_token", report.model.kv_bytes_per_token}}},
                       {"workload", report.workload},
                       {"router", router_name(report.router)}};
  json["scheduler"] = {{"max_step_tokens", report.limits.max_step_tokens},
                       {"max_running", report.limits.max_running},
                       {"order", name_of(report.limits.order)}};
  if (!report.calibration.empty()) json["calibration"] = report.calibration;
  if (!report.calibration_doubt.empty()) json["calibration_warning"] = report.calibration_doubt;
  if (report.targets.any()) {
    json["targets"] = {{"good_share_min", report.good_share_min}};
    if (report.targets.ttft_ms) json["targets"]["ttft_ms"] = *report.targets.ttft_ms;
    if (report.targets.tpot_ms) json["targets"]["tpot_ms"] = *report.targets.tpot_ms;
  }
  for (const FleetReport& fleet : report.fleets) json["fleets"].push_back(fleet_json(report, fleet));
  if (report.fleets.size() > 1) json["comparison"] = comparison_json(report);
  out << json.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace twostroke::simulate
