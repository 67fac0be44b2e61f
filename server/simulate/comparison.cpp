#include "server/simulate/comparison.h"

#include <algorithm>
#include <functional>

#include "server/simulate/max_rate.h"

namespace twostroke::simulate {
namespace {

void find_cheapest(const Report& report, std::vector<size_t> places, Comparison& comparison) {
  const auto priced = [](const FleetReport& fleet) { return fleet.fleet.price_per_hour().has_value(); };
  if (places.size() < 2 || std::ranges::none_of(report.fleets, priced)) return;
  std::vector<double> prices(report.fleets.size());
  for (const size_t place : places) {
    if (const std::optional<TokenPrice> price = token_price(report.fleets[place])) {
      prices[place] = price->output;
    } else {
      comparison.unpriced.push_back(place);
    }
  }
  if (!comparison.unpriced.empty()) return;
  std::ranges::stable_sort(places, {}, [&prices](size_t place) { return prices[place]; });
  if (prices[places[1]] <= prices[places[0]] * (1 + kEqualWithin)) return;
  comparison.cheapest = places[0];
  comparison.next_price = prices[places[1]];
}

void find_highest(const Report& report, std::vector<size_t> places, double within, Comparison& comparison) {
  const auto worth = [&report](size_t place) { return worth_of(report.fleets[place]); };
  std::ranges::stable_sort(places, std::greater(), worth);
  const double highest = worth(places[0]);
  const double next = places.size() > 1 ? worth(places[1]) : 0;
  if (highest == 0) return;
  if (highest > next * (1 + within)) {
    comparison.best = places[0];
    if (next > 0) comparison.times_the_next = highest / next;
    return;
  }
  comparison.within = within;
  std::ranges::copy_if(places, std::back_inserter(comparison.equals),
                       [&](size_t place) { return highest <= worth(place) * (1 + within); });
}

void find_at_highest_rates(const Report& report, Comparison& comparison) {
  std::vector<size_t> served;  // at some rate
  for (size_t i = 0; i < report.fleets.size(); ++i) {
    if (worth_of(report.fleets[i]) > 0) served.push_back(i);
  }
  if (served.empty()) return;
  // The search for a rate ends that near to it.
  find_highest(report, served, std::max(kEqualWithin, MaxRateOptions().tolerance), comparison);
  find_cheapest(report, served, comparison);
}

}  // namespace

double worth_of(const FleetReport& fleet) {
  if (fleet.max_rate) return fleet.max_rate->rate;
  const double seconds = span_seconds(fleet.result);
  return seconds > 0 ? static_cast<double>(fleet.result.good) / seconds : 0;
}

Comparison compare(const Report& report) {
  Comparison comparison;
  if (report.fleets.front().max_rate) {
    find_at_highest_rates(report, comparison);
    return comparison;
  }
  std::vector<size_t> all;
  std::vector<size_t> enough;  // not known to fall behind, with enough good answers
  double others = 0;           // what the best of the others gives
  for (size_t i = 0; i < report.fleets.size(); ++i) {
    const FleetReport& fleet = report.fleets[i];
    all.push_back(i);
    const bool good = fleet.result.good_share() >= report.good_share_min;
    if (const Load load = load_of(fleet.result); good && load != Load::kFallsBehind) {
      enough.push_back(i);
      comparison.too_short |= load == Load::kTooShort;
    } else {
      others = std::max(others, worth_of(fleet));
    }
  }
  if (enough.empty()) {
    find_highest(report, all, kEqualWithin, comparison);
  } else if (enough.size() == 1) {
    comparison.best = enough.front();
    const double worth = worth_of(report.fleets[enough.front()]);
    if (others > 0 && worth > others) comparison.times_the_next = worth / others;
    comparison.too_short = false;
  } else {
    comparison.keep_up = !comparison.too_short;
    if (comparison.keep_up) find_cheapest(report, enough, comparison);
    comparison.equals = std::move(enough);
  }
  return comparison;
}

}  // namespace twostroke::simulate
