#include "server/text/grammar/position_mask.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "server/text/grammar/chart.h"
#include "server/text/grammar/trie_walk.h"

namespace twostroke::grammar {
namespace {

constexpr uint64_t kWorkMax = 4'000'000;  // items that one mask may take

// Whether every plain code point (those that Forest's plain tokens consist of) leads from one set to one other.
class PlainSteps {
 public:
  explicit PlainSteps(Chart& chart) : chart_(chart) {}

  // That other set, or kDead when there is none.
  uint32_t target(uint32_t set) {
    const uint32_t to = chart_.step(set, 'a');
    if (to == Chart::kDead) return Chart::kDead;
    checked_.clear();
    const bool all = leads(set, 0x20, '!', 0, to) && leads(set, '#', '[', 0, to) && leads(set, ']', 0x7E, 0, to) &&
                     leads(set, 0xC2, 0xDF, 1, to) && after(set, 0xE0, 0xA0, 0xBF, 1, to) &&
                     leads(set, 0xE1, 0xEC, 2, to) && after(set, 0xED, 0x80, 0x9F, 1, to) &&
                     leads(set, 0xEE, 0xEF, 2, to) && after(set, 0xF0, 0x90, 0xBF, 2, to) &&
                     leads(set, 0xF1, 0xF3, 3, to) && after(set, 0xF4, 0x80, 0x8F, 2, to);
    return all ? to : Chart::kDead;
  }

 private:
  // `lead`, then a byte of [first, last], then `rest` continuation bytes.
  bool after(uint32_t set, uint8_t lead, uint8_t first, uint8_t last, uint32_t rest, uint32_t to) {
    const uint32_t next = chart_.step(set, lead);
    return next != Chart::kDead && leads(next, first, last, rest, to);
  }
  // A byte of [first, last], then `rest` continuation bytes.
  bool leads(uint32_t set, uint32_t first, uint32_t last, uint32_t rest, uint32_t to) {
    for (uint32_t byte = first; byte <= last; ++byte) {
      const uint32_t next = chart_.step(set, static_cast<uint8_t>(byte));
      if (rest == 0 ? next != to : !continues(next, rest, to)) return false;
    }
    return true;
  }
  bool continues(uint32_t set, uint32_t rest, uint32_t to) {
    if (set == Chart::kDead) return false;
    if (std::find(checked_.begin(), checked_.end(), std::pair(set, rest)) != checked_.end()) return true;
    if (!leads(set, 0x80, 0xBF, rest - 1, to)) return false;
    checked_.push_back({set, rest});
    return true;
  }

  Chart& chart_;
  std::vector<std::pair<uint32_t, uint32_t>> checked_;  // what was found to lead to the target
};

// The same items, each with one round more behind it.
bool is_one_round_later(std::span<const Item> before, std::span<const Item> after) {
  return std::equal(before.begin(), before.end(), after.begin(), after.end(), [](const Item& a, const Item& b) {
    return a.position == b.position && a.count + 1 == b.count && a.set == b.set && a.rule == b.rule;
  });
}

// Every text of plain code points can be read from `set`; of a counted rule, one round for each.
bool takes_plain(Chart& chart, uint32_t set, bool counted) {
  PlainSteps steps(chart);
  const uint32_t first = steps.target(set);
  if (first == Chart::kDead) return false;
  const uint32_t second = steps.target(first);
  if (second == Chart::kDead) return false;
  if (!counted) return second == first;
  for (const Item& item : chart.kernel(first)) {
    if (item.set != Chart::kHole || item.count != chart.hole_count(set)) return false;
  }
  return is_one_round_later(chart.kernel(first), chart.kernel(second));
}

class Finder {
 public:
  Finder(const Grammar& grammar, const Forest& forest) : chart_(grammar), forest_(forest), bits_(forest.all.size()) {
    chart_.allow_work(kWorkMax);
  }

  PositionMask find(uint32_t position, uint32_t count, HoleBounds bounds, bool without_plain, bool counted) {
    const uint32_t set = chart_.hole_set(position, count, bounds);
    mask_.takes_plain = without_plain || (bounds != HoleBounds::kMinNeverReached && may_take_plain(bounds, counted) &&
                                          twostroke::grammar::takes_plain(chart_, set, counted));
    const uint32_t begin = mask_.takes_plain ? forest_.rest_begin : 0;
    std::vector<uint32_t> path;
    uint32_t count_highest = count;
    walk(chart_, forest_, begin, forest_.node_count(), set, path, [&](uint32_t node, uint32_t behind) {
      set_token_bits(forest_, node, bits_);
      count_highest = std::max(count_highest, chart_.hole_count(behind));
      if (chart_.leaves_hole(behind)) add_exits(node);
    });
    mask_.rounds_max = count_highest - count;
    drop_exits_without_news();
    sort_exits();
    store_tokens();
    return std::move(mask_);
  }

 private:
  // A counted rule says so where it has no bound: what depends on the count is left to the user of the mask.
  static bool may_take_plain(HoleBounds bounds, bool counted) { return !counted || bounds == HoleBounds::kNoMax; }

  void add_exits(uint32_t node) {
    const uint32_t end = forest_.nodes[node].subtree_end;
    for (uint32_t child = node + 1; child < end; child = forest_.nodes[child].subtree_end) exits_.push_back(child);
  }

  // What the rule itself reads in a whole subtree needs no look at the callers.
  void drop_exits_without_news() {
    std::erase_if(exits_, [&](uint32_t node) {
      const uint32_t end = forest_.nodes[forest_.nodes[node].subtree_end].tokens_begin;
      for (uint32_t i = forest_.nodes[node].tokens_begin; i < end; ++i) {
        const auto token = static_cast<uint32_t>(forest_.tokens[i]);
        if ((bits_[token / 32] >> (token % 32) & 1) == 0) return false;
      }
      return true;
    });
  }

  void sort_exits() {
    std::array<uint32_t, 257> begin{};
    for (const uint32_t node : exits_) ++begin[forest_.nodes[node].byte() + 1];
    for (size_t byte = 0; byte < 256; ++byte) {
      if (begin[byte + 1] > 0) {
        mask_.exit_bytes.push_back(static_cast<uint8_t>(byte));
        mask_.exit_begin.push_back(begin[byte]);
      }
      begin[byte + 1] += begin[byte];
    }
    mask_.exit_begin.push_back(static_cast<uint32_t>(exits_.size()));
    mask_.exits.resize(exits_.size());
    for (const uint32_t node : exits_) mask_.exits[begin[forest_.nodes[node].byte()]++] = node;
  }

  void store_tokens() {
    size_t count = 0;
    for (const uint32_t word : bits_) count += static_cast<size_t>(std::popcount(word));
    if (count > bits_.size()) {
      mask_.words = std::move(bits_);
      return;
    }
    for (size_t i = 0; i < bits_.size(); ++i) {
      for (uint32_t word = bits_[i]; word != 0; word &= word - 1)
        mask_.tokens.push_back(static_cast<TokenId>(32 * i + static_cast<size_t>(std::countr_zero(word))));
    }
  }

  Chart chart_;
  const Forest& forest_;
  std::vector<uint32_t> bits_;
  std::vector<uint32_t> exits_;
  PositionMask mask_;
};

}  // namespace

std::shared_ptr<const PositionMask> position_mask(const Grammar& grammar, const Forest& forest, uint32_t position,
                                                  uint32_t count) {
  const MaskCache::Key key{forest.id, position, count};
  if (auto known = grammar.masks.find(key)) return known;
  const Rule& rule = grammar.rules[grammar.positions[position].rule];
  PositionMask found;
  if (!rule.counted) {
    found = Finder(grammar, forest).find(position, 0, HoleBounds::kReal, false, false);
  } else if (count == kFarFromMax) {
    found = Finder(grammar, forest).find(position, rule.min, HoleBounds::kNoMax, false, true);
  } else {
    const bool without_plain = position_mask(grammar, forest, position, kFarFromMax)->takes_plain;
    found = count == kFarFromMin
                ? Finder(grammar, forest).find(position, 0, HoleBounds::kMinNeverReached, without_plain, true)
                : Finder(grammar, forest).find(position, count, HoleBounds::kReal, without_plain, true);
  }
  auto result = std::make_shared<const PositionMask>(std::move(found));
  grammar.masks.insert(key, result);
  return result;
}

}  // namespace twostroke::grammar
