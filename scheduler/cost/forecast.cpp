#include "scheduler/cost/forecast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace twostroke {
namespace {

// Sequences that must end or give way before there is a slot, and blocks, for everything before the request and itself.
uint64_t departures_needed(const ForecastBasis& basis, const PromptLoad& before, const PromptNeed& own) {
  const uint64_t sequences = uint64_t{before.sequences} + 1;
  const uint64_t slots = sequences > basis.slots_free ? sequences - basis.slots_free : 0;
  // Admission keeps one more block for each that runs, to grow into.
  const uint64_t blocks = before.blocks + own.blocks + before.sequences;
  if (blocks <= basis.blocks_room || basis.blocks_per_end == 0) return slots;
  const uint64_t missing = blocks - basis.blocks_room;
  return std::max(slots, (missing + basis.blocks_per_end - 1) / basis.blocks_per_end);
}

// Each of the last `tokens` positions attends to all before it.
double positions_of(const PromptNeed& need) {
  const double tokens = need.tokens;
  return tokens * (need.length - tokens / 2);
}

// A step costs short_step_ns and what its tokens add to that, so full ones share it among step_tokens.
double own_ns(const PrefillPace& pace, const PromptNeed& need) {
  const double tokens = need.tokens;
  const double chunks = tokens / pace.step_tokens;
  return tokens * pace.token_ns + (std::ceil(chunks) - chunks) * pace.short_step_ns +
         positions_of(need) * pace.position_ns;
}

// As a short one: its half of each step, which the others fill.
double own_ns_in_halves(const PrefillPace& pace, const PromptNeed& need) {
  const double steps = std::ceil(2.0 * need.tokens / pace.step_tokens);
  return steps * pace.step_tokens * pace.token_ns + positions_of(need) * pace.position_ns;
}

double load_ns(const PrefillPace& pace, const PromptLoad& load) {
  return static_cast<double>(load.tokens) * pace.token_ns + static_cast<double>(load.positions) * pace.position_ns;
}

// Of a step's prompts that are no longer than `tokens`.
void add_up_to(uint64_t tokens, const SizedLoads& loads, PromptLoad& sum) {
  for (size_t i = 0; i <= size_of_prompt(tokens); ++i) sum += loads[i];
}
bool any_beyond(uint64_t tokens, const SizedLoads& loads) {
  const auto longer = std::span(loads).subspan(size_of_prompt(tokens) + 1);
  return std::ranges::any_of(longer, [](const PromptLoad& load) { return load.tokens > 0; });
}

}  // namespace

PromptLoad& PromptLoad::operator+=(const PromptLoad& other) {
  tokens += other.tokens;
  positions += other.positions;
  blocks += other.blocks;
  sequences += other.sequences;
  return *this;
}

PromptLoad& PromptLoad::operator-=(const PromptLoad& other) {
  tokens -= other.tokens;
  positions -= other.positions;
  blocks -= other.blocks;
  sequences -= other.sequences;
  return *this;
}

PromptLoad load_of(const PromptNeed& need, uint32_t sequences) {
  return {.tokens = need.tokens,
          .positions = static_cast<uint64_t>(positions_of(need)),
          .blocks = need.blocks,
          .sequences = sequences};
}

size_t size_of_prompt(uint64_t tokens) {
  constexpr int kSmallest = 4;  // 16 tokens
  const int bits = static_cast<int>(std::bit_width(std::max<uint64_t>(tokens, 1) - 1));
  return std::min<size_t>(static_cast<size_t>(std::max(bits - kSmallest, 0)), kForecastSizes - 1);
}

ForecastLevel& ForecastBasis::level(int32_t priority) {
  const auto end = levels.begin() + level_count;
  const auto place = std::ranges::lower_bound(levels.begin(), end, priority, {}, &ForecastLevel::priority);
  if (place != end && place->priority == priority) return *place;
  if (level_count == kForecastLevels && place == end) return levels.back();
  if (level_count == kForecastLevels) {
    // The two worst become one.
    ForecastLevel& last = levels.back();
    ForecastLevel& other = levels[kForecastLevels - 2];
    for (size_t i = 0; i < kForecastSizes; ++i) {
      other.waiting[i] += last.waiting[i];
      other.prefilling[i] += last.prefilling[i];
    }
    other.first_tokens = std::max(other.first_tokens, last.first_tokens);
    other.running += last.running;
    --level_count;
    return level(priority);
  }
  std::move_backward(place, end, end + 1);
  ++level_count;
  *place = {.priority = priority};
  return *place;
}

void spare(PromptNeed& need, uint32_t tokens, uint32_t block_size) {
  const uint32_t found = std::min(tokens, need.length - 1) / block_size;  // blocks
  need.tokens = std::min(need.tokens, need.length - found * block_size);
  need.blocks = std::min(need.blocks, (need.length + block_size - 1) / block_size - found);
}

PromptLoad running_before(const ForecastBasis& basis, int32_t priority) {
  PromptLoad before = basis.aged;
  for (const ForecastLevel& level : std::span(basis.levels).first(basis.level_count)) {
    if (level.priority > priority) break;
    for (const PromptLoad& load : level.prefilling) before += load;
  }
  return before;
}

uint32_t gives_way_to(const ForecastBasis& basis, int32_t priority) {
  uint32_t sequences = 0;
  for (const ForecastLevel& level : std::span(basis.levels).first(basis.level_count)) {
    if (level.priority > priority) sequences += level.running;
  }
  return sequences;
}

ForecastRequest newcomer(const ForecastBasis& basis, int32_t priority, const PromptNeed& own) {
  ForecastRequest request{
      .before = running_before(basis, priority), .gives_way = gives_way_to(basis, priority), .own = own};
  PromptLoad better = basis.aged;
  const ForecastLevel* equals = nullptr;
  for (const ForecastLevel& level : std::span(basis.levels).first(basis.level_count)) {
    if (level.priority > priority) break;
    for (const PromptLoad& load : level.waiting) request.before += load;
    if (level.priority == priority) {
      equals = &level;
      break;
    }
    for (size_t i = 0; i < kForecastSizes; ++i) better += level.waiting[i], better += level.prefilling[i];
  }
  if (equals == nullptr) return request;
  const uint64_t in_steps = uint64_t{kShortSteps} * basis.pace.step_tokens;
  const uint64_t short_tokens = std::max(in_steps, equals->first_tokens / kShortPart);
  if (own.tokens > short_tokens) return request;
  if (!any_beyond(short_tokens, equals->waiting) && !any_beyond(short_tokens, equals->prefilling)) return request;
  PromptLoad& before = request.before_as_short.emplace(better);
  add_up_to(short_tokens, equals->waiting, before);
  add_up_to(short_tokens, equals->prefilling, before);
  return request;
}

Forecast forecast(const ForecastBasis& basis, const ForecastRequest& request) {
  constexpr double kMax = 1e17;  // three years, well within TimeNs
  const auto start_behind = [&](const PromptLoad& before, double backlog) {
    const uint64_t departures = departures_needed(basis, before, request.own);
    const uint64_t ends_needed = departures - std::min<uint64_t>(departures, request.gives_way);
    const double ends = static_cast<double>(ends_needed) * static_cast<double>(basis.end_interval_ns);
    return static_cast<double>(basis.step_ns) + std::max(backlog, ends);
  };
  double start = start_behind(request.before, load_ns(basis.pace, request.before));
  double first_token = start + own_ns(basis.pace, request.own);
  if (request.before_as_short) {
    const PromptLoad& before = *request.before_as_short;
    const double sooner = start_behind(before, 2 * load_ns(basis.pace, before));
    start = std::min(start, sooner);
    first_token = std::min(first_token, sooner + own_ns_in_halves(basis.pace, request.own));
  }
  return {.start_ns = static_cast<TimeNs>(std::min(start, kMax)),
          .first_token_ns = static_cast<TimeNs>(std::min(first_token, kMax)),
          .alone_ns = static_cast<TimeNs>(std::min(own_ns(basis.pace_alone, request.own), kMax))};
}

bool DeadlineGate::admits(TimeNs predicted_ns, TimeNs alone_ns, TimeNs objective_ns) {
  if (alone_ns > objective_ns) return false;
  const double bound = static_cast<double>(objective_ns) * (closed_ ? kReopen : 1);
  // One that would fail the stricter bound even alone must not wait for a load that can never be low enough.
  const bool admitted = static_cast<double>(predicted_ns) <= std::max(bound, static_cast<double>(alone_ns));
  closed_ = !admitted;
  return admitted;
}

}  // namespace twostroke
