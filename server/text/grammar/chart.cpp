#include "server/text/grammar/chart.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace twostroke::grammar {
namespace {

auto identity(const Item& item) { return std::tie(item.position, item.set, item.rule, item.count); }

uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
  value = (value ^ value >> 27) * 0x94D049BB133111EBu;
  return value ^ value >> 31;
}

uint64_t kernel_hash(std::span<const Item> kernel) {
  uint64_t hash = kernel.size();
  for (const Item& item : kernel) {
    hash = mix(hash + (uint64_t{item.position} << 32 | item.count));
    hash = mix(hash + (uint64_t{item.set} << 32 | item.rule));
  }
  return hash;
}

}  // namespace

void Chart::Seen::clear() {
  used_ = 0;
  if (slots_.empty()) slots_.resize(64);
  if (++stamp_ == 0) {
    slots_.assign(slots_.size(), {});
    stamp_ = 1;
  }
}

size_t Chart::Seen::hash(const Slot& slot) {
  return static_cast<size_t>(
      mix((uint64_t{slot.position} << 32 | slot.set) + mix(uint64_t{slot.key} << 32 | slot.rule)));
}

bool Chart::Seen::insert(const Item& item, bool or_less) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  const Slot wanted{stamp_, item.position, or_less ? UINT32_MAX : item.count, item.set, item.rule, item.count};
  for (size_t i = hash(wanted);; ++i) {
    Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.stamp != stamp_) {
      slot = wanted;
      ++used_;
      return true;
    }
    if (slot.position != wanted.position || slot.key != wanted.key || slot.set != wanted.set ||
        slot.rule != wanted.rule)
      continue;
    if (slot.count <= wanted.count) return false;
    slot.count = wanted.count;
    return true;
  }
}

void Chart::Seen::grow() {
  std::vector<Slot> old(2 * slots_.size());
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.stamp != stamp_) continue;
    size_t i = hash(slot) & (slots_.size() - 1);
    while (slots_[i].stamp == stamp_) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = slot;
  }
}

Chart::Bounds Chart::bounds(const Item& item) const {
  const Rule& rule = grammar_->rules[grammar_->positions[item.position].rule];
  if (item.set != kHole || hole_bounds_ == HoleBounds::kReal) return {rule.counted, rule.min, rule.max, false};
  const bool no_max = hole_bounds_ == HoleBounds::kNoMax;
  return {rule.counted, no_max ? rule.min : UINT32_MAX, UINT32_MAX, true};
}

uint32_t Chart::root_set() {
  kernel_.clear();
  add_to_kernel({grammar_->rules[grammar_->root].start, 0, kRoot, grammar_->root});
  return intern();
}

uint32_t Chart::hole_set(uint32_t position, uint32_t count, HoleBounds bounds) {
  hole_bounds_ = bounds;
  const auto set = static_cast<uint32_t>(sets_.size());
  Set& made = sets_.emplace_back();  // its kernel is not to be found: a set with it that a text leads to is a whole one
  made.items = static_cast<uint32_t>(items_.size());
  made.waiting = static_cast<uint32_t>(waiting_.size());
  made.item_count = made.kernel_count = 1;
  made.hole_count = count;
  items_.push_back({position, count, kHole, grammar_->positions[position].rule});
  return set;
}

uint32_t Chart::exit_set(uint32_t set, uint32_t rule) {
  kernel_.clear();
  for (const Waiting& waiting : waiting_for(set, rule)) {
    Item item = items_[sets_[set].items + waiting.item];
    item.position = waiting.target;
    add_to_kernel(item);
  }
  return intern();
}

uint32_t Chart::item_set(const Item& item) {
  kernel_.assign(1, item);
  return intern();
}

uint32_t Chart::find_step(uint32_t set, uint8_t byte) {
  if (work_left_ == 0) return kDead;
  kernel_.clear();
  uint8_t low = 0, high = 255;  // bytes with which the same happens
  for (const Item& item : items(set)) {
    for (const ByteEdge& edge : grammar_->bytes(item.position)) {
      if (edge.first > byte) {
        high = std::min<uint8_t>(high, edge.first - 1);
        break;
      }
      if (byte > edge.last) {
        low = std::max<uint8_t>(low, edge.last + 1);
        continue;
      }
      low = std::max(low, edge.first);
      high = std::min(high, edge.last);
      Item next = item;
      next.position = edge.target;
      add_to_kernel(next);
    }
  }
  const uint32_t target = intern();
  if (work_left_ > 0) remember_steps(set, low, high, target);
  return target;
}

void Chart::remember_steps(uint32_t set, uint8_t low, uint8_t high, uint32_t target) {
  Set& from = sets_[set];
  if (from.row == kNone) {
    if (from.low > from.high) {
      from.low = low;
      from.high = high;
      from.target = target;
      return;
    }
    if (rows_.size() >= kRowsMax) return;
    from.row = static_cast<uint32_t>(rows_.size());
    rows_.emplace_back().fill(kUnknown);
    std::fill(&rows_[from.row][from.low], &rows_[from.row][from.high] + 1, from.target);
  }
  std::fill(&rows_[from.row][low], &rows_[from.row][high] + 1, target);
}

uint32_t Chart::step_token(uint32_t set, TokenId token, uint32_t also) {
  kernel_.clear();
  for (const Item& item : items(set)) {
    for (const TokenEdge& edge : grammar_->tokens(item.position)) {
      if ((edge.token == token) == edge.except) continue;
      Item next = item;
      next.position = edge.target;
      add_to_kernel(next);
    }
  }
  if (kernel_.empty()) return also;
  if (also != kDead) {
    for (const Item& item : kernel(also)) add_to_kernel(item);
  }
  return intern();
}

void Chart::add_to_kernel(const Item& item) {
  if (within_depth(item)) kernel_.push_back(item);
}

uint32_t Chart::intern() {
  if (kernel_.empty()) return kDead;
  std::sort(kernel_.begin(), kernel_.end(), [](const Item& a, const Item& b) { return identity(a) < identity(b); });
  // Of items that differ in their count alone, and have their minimum behind them, the lowest can do what all can.
  size_t kept = 0;
  for (size_t i = 0; i < kernel_.size(); ++i) {
    const Item& item = kernel_[i];
    if (kept > 0) {
      const Item& last = kernel_[kept - 1];
      const bool same = last.position == item.position && last.set == item.set && last.rule == item.rule;
      if (same && (last.count == item.count || last.count >= bounds(last).min)) continue;
    }
    kernel_[kept++] = item;
  }
  kernel_.resize(kept);
  const uint64_t hash = kernel_hash(kernel_);
  const auto found = by_hash_.find(hash);
  for (uint32_t set = found == by_hash_.end() ? kNone : found->second; set != kNone; set = sets_[set].next_same_hash) {
    const auto known = kernel(set);
    if (std::equal(known.begin(), known.end(), kernel_.begin(), kernel_.end(),
                   [](const Item& a, const Item& b) { return identity(a) == identity(b); }))
      return set;
  }
  return make_set(hash);
}

uint32_t Chart::make_set(uint64_t hash) {
  const auto set = static_cast<uint32_t>(sets_.size());
  const size_t waiting_before = waiting_.size();
  Set& made = sets_.emplace_back();
  made.items = static_cast<uint32_t>(items_.size());
  made.waiting = static_cast<uint32_t>(waiting_before);
  made.kernel_count = static_cast<uint32_t>(kernel_.size());
  for (const Item& item : kernel_) made.depth = std::max(made.depth, frame_depth(item.set));
  if (!close(set)) {
    at_limit_ = true;
    items_.resize(made.items);
    waiting_.resize(waiting_before);
    sets_.pop_back();
    return kDead;
  }
  made.item_count = static_cast<uint32_t>(items_.size()) - made.items;
  made.waiting_count = static_cast<uint32_t>(waiting_.size()) - made.waiting;
  std::stable_sort(waiting_.begin() + made.waiting, waiting_.end(),
                   [](const Waiting& a, const Waiting& b) { return a.rule < b.rule; });
  const auto [entry, is_new] = by_hash_.emplace(hash, set);
  if (!is_new) made.next_same_hash = std::exchange(entry->second, set);
  return set;
}

// Adds what follows from the kernel. False: a limit is reached.
bool Chart::close(uint32_t set) {
  const size_t begin = items_.size();
  seen_.clear();
  set_work_ = 0;
  for (const Item& item : kernel_) {
    seen_.insert(item, bounds(item).counted && item.count >= bounds(item).min);
    items_.push_back(item);
  }
  for (size_t i = begin; i < items_.size(); ++i) {
    if (i - begin >= kItemsMax || items_.size() > kStoreItemsMax) return false;
    if (set_work_ > kSetWorkMax || set_work_ >= work_left_) {
      work_left_ -= std::min<uint64_t>(work_left_, set_work_);
      return false;
    }
    ++set_work_;
    const Item item = items_[i];
    if (item.set == kHole) sets_[set].hole_count = std::max(sets_[set].hole_count, item.count);
    if (grammar_->positions[item.position].final) complete(set, item);
    for (const CallEdge& call : grammar_->calls(item.position)) {
      const Rule& rule = grammar_->rules[call.rule];
      if (rule.nullable) add({call.target, item.count, item.set, item.rule});
      if (call.tail) {
        add({rule.start, 0, item.set, item.rule});
      } else {
        add({rule.start, 0, set, call.rule});
        waiting_.push_back({call.rule, static_cast<uint32_t>(i - begin), call.target});
      }
    }
  }
  work_left_ -= std::min<uint64_t>(work_left_, set_work_);
  return true;
}

void Chart::add(const Item& item) {
  ++set_work_;
  if (!within_depth(item)) {
    at_limit_ = true;
    return;
  }
  const Bounds limits = bounds(item);
  if (seen_.insert(item, limits.counted && item.count >= limits.min)) items_.push_back(item);
}

// `item` is at the end of its rule's text, or of a round of it.
void Chart::complete(uint32_t set, const Item& item) {
  const Bounds limits = bounds(item);
  if (limits.counted) {
    uint32_t rounds = item.count + 1;
    if (limits.max == UINT32_MAX && !limits.exact) rounds = std::min(rounds, limits.min);
    if (rounds < limits.max) {
      const uint32_t start = grammar_->rules[grammar_->positions[item.position].rule].start;
      add({start, rounds, item.set, item.rule});
    }
    if (rounds < limits.min) return;
  }
  if (item.set == set) return;  // called here and empty: whoever called it has stepped over it
  if (item.set == kRoot) {
    sets_[set].ends = true;
  } else if (item.set == kHole) {
    sets_[set].leaves = true;
  } else {
    for (const Waiting& waiting : waiting_for(item.set, item.rule)) {
      const Item& caller = items_[sets_[item.set].items + waiting.item];
      add({waiting.target, caller.count, caller.set, caller.rule});
    }
  }
}

std::span<const Chart::Waiting> Chart::waiting_for(uint32_t set, uint32_t rule) const {
  const auto all = std::span(waiting_).subspan(sets_[set].waiting, sets_[set].waiting_count);
  const auto begin =
      std::lower_bound(all.begin(), all.end(), rule, [](const Waiting& a, uint32_t b) { return a.rule < b; });
  auto end = begin;
  while (end != all.end() && end->rule == rule) ++end;
  return {begin, end};
}

uint32_t Chart::collect(uint32_t set) {
  if (sets_.size() + items_.size() + 64 * rows_.size() < collect_above_) return set;
  std::vector<uint32_t> number(sets_.size(), kNone), stack{set};
  number[set] = 0;
  while (!stack.empty()) {
    const uint32_t from = stack.back();
    stack.pop_back();
    for (const Item& item : items(from)) {
      if (item.set >= kHole || number[item.set] != kNone) continue;
      number[item.set] = 0;
      stack.push_back(item.set);
    }
  }
  Chart rest(*grammar_);
  for (uint32_t old = 0; old < sets_.size(); ++old) {
    if (number[old] == kNone) continue;
    number[old] = static_cast<uint32_t>(rest.sets_.size());
    Set kept = sets_[old];
    kept.next_same_hash = kept.row = kNone;
    kept.low = 1, kept.high = 0;
    kept.items = static_cast<uint32_t>(rest.items_.size());
    kept.waiting = static_cast<uint32_t>(rest.waiting_.size());
    for (Item item : items(old)) {
      if (item.set < kHole) item.set = number[item.set];
      rest.items_.push_back(item);
    }
    rest.waiting_.insert(rest.waiting_.end(), waiting_.begin() + sets_[old].waiting,
                         waiting_.begin() + sets_[old].waiting + sets_[old].waiting_count);
    rest.sets_.push_back(kept);
  }
  for (uint32_t kept = 0; kept < rest.sets_.size(); ++kept) {
    const auto [entry, is_new] = rest.by_hash_.emplace(kernel_hash(rest.kernel(kept)), kept);
    if (!is_new) rest.sets_[kept].next_same_hash = std::exchange(entry->second, kept);
  }
  rest.collect_above_ = std::max<size_t>(16'384, 2 * (rest.sets_.size() + rest.items_.size()));
  rest.work_left_ = work_left_;
  rest.at_limit_ = at_limit_;
  const uint32_t result = number[set];
  *this = std::move(rest);
  return result;
}

}  // namespace twostroke::grammar
