// Chart: the parser. It reads any context-free grammar, left-recursive and ambiguous ones too, byte by byte.
//
// Method: Earley's (An Efficient Context-Free Parsing Algorithm, 1970), with rules that may be empty stepped over when
// they are called (Aycock and Horspool, Practical Earley Parsing, 2002), over automata instead of rule texts, and with
// calls in tail position returning straight to the caller's caller, so that right recursion needs no stack.
//
// What makes it fast is that item sets are *interned*. An item is a position, a count of rounds, and a *frame*: the set
// in which its rule was called, and the rule whose callers continue when it ends. A set is what follows from its
// *kernel*, the items that the last byte led to; equal kernels give the same set, with the same number. Since frames
// name sets by number, a set stands for everything that the parser knows, the whole stack included, and the step from
// a set by a byte is looked up once it was made. In a text's loops the parser runs through a table.
//
// Bounded work: at most kItemsMax items in a set, found in at most kSetWorkMax steps, kDepthMax calls within one
// another, and kStoreItemsMax items in all; a byte that would go beyond is one that cannot follow. An item is not made
// where its rule could not be finished within the depth, so that going deep never ends in a dead end.
//
// Thread-safety: one user at a time; the grammar is shared. Copyable.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "server/text/grammar/compiled_grammar.h"

namespace twostroke::grammar {

struct Item {
  uint32_t position = 0;
  uint32_t count = 0;  // rounds behind it, in a counted rule
  uint32_t set = 0;    // the frame: where the rule was called (a set, Chart::kRoot or Chart::kHole),
  uint32_t rule = 0;   // and which rule's callers continue there
};

// How a chart of one position counts that position's own rounds.
enum class HoleBounds {
  kReal,             // as the grammar says
  kNoMax,            // the minimum is reached, and there is no maximum
  kMinNeverReached,  // and no maximum either
};

class Chart {
 public:
  static constexpr uint32_t kDead = UINT32_MAX;  // no set: what was read cannot be a beginning
  static constexpr uint32_t kRoot = UINT32_MAX - 1;
  static constexpr uint32_t kHole = UINT32_MAX - 2;  // a frame about which nothing is known

  static constexpr uint32_t kItemsMax = 8192;
  static constexpr uint32_t kSetWorkMax = 60'000;
  static constexpr uint32_t kDepthMax = 50'000;
  static constexpr uint32_t kStoreItemsMax = 4'000'000;

  explicit Chart(const Grammar& grammar) : grammar_(&grammar) {}

  // The sets that things begin with. hole_set: what `position` reads by its own byte edges, called by nobody known; its
  // calls, and what follows where it is final, are not part of this set.
  uint32_t root_set();
  uint32_t hole_set(uint32_t position, uint32_t count, HoleBounds bounds);
  // What follows once the frame (set, rule) is left; requires a frame that is a set.
  uint32_t exit_set(uint32_t set, uint32_t rule);
  // `item`, which some set has, alone.
  uint32_t item_set(const Item& item);

  // The set behind `byte`, or kDead.
  uint32_t step(uint32_t set, uint8_t byte) {
    const Set& from = sets_[set];
    if (from.row != kNone) {
      const uint32_t known = rows_[from.row][byte];
      if (known != kUnknown) return known;
    } else if (from.low <= byte && byte <= from.high) {
      return from.target;
    }
    return find_step(set, byte);
  }
  // The set behind `token` as a whole, united with `also`, a set or kDead.
  uint32_t step_token(uint32_t set, TokenId token, uint32_t also);

  std::span<const Item> items(uint32_t set) const {
    return std::span(items_).subspan(sets_[set].items, sets_[set].item_count);
  }
  std::span<const Item> kernel(uint32_t set) const { return items(set).first(sets_[set].kernel_count); }
  bool may_end(uint32_t set) const { return sets_[set].ends; }
  // The last byte may have been the last of the hole's rule.
  bool leaves_hole(uint32_t set) const { return sets_[set].leaves; }
  // The highest count of the hole's own items.
  uint32_t hole_count(uint32_t set) const { return sets_[set].hole_count; }
  uint32_t depth(uint32_t set) const { return sets_[set].depth; }

  // Everything that `set` does not need is forgotten when there is much of it; gives the set's new number.
  uint32_t collect(uint32_t set);

  // From now on, at most so many more times an item is made or found again; steps that need more give kDead.
  void allow_work(uint64_t work) { work_left_ = work; }
  bool out_of_work() const { return work_left_ == 0; }
  // A byte was refused because of a limit, since the chart began.
  bool at_limit() const { return at_limit_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kUnknown = UINT32_MAX - 3;
  static constexpr size_t kRowsMax = 16'384;

  struct Set {
    uint32_t items = 0, kernel_count = 0, item_count = 0;
    uint32_t waiting = 0, waiting_count = 0;
    uint32_t depth = 0;  // of the deepest kernel item's frame
    uint32_t hole_count = 0;
    uint32_t next_same_hash = kNone;
    // Steps that are known: those of the bytes [low, high], or a row of all.
    uint32_t target = kUnknown;
    uint32_t row = kNone;
    uint8_t low = 1, high = 0;
    bool ends = false, leaves = false;
  };
  // An item of a set that continues at `target` when `rule`, which it called, ends.
  struct Waiting {
    uint32_t rule, item, target;
  };
  // Which items the set at hand has.
  class Seen {
   public:
    void clear();
    // False when it is there already; with `or_less`, also when one with a lower count is.
    bool insert(const Item& item, bool or_less);

   private:
    struct Slot {
      uint32_t stamp = 0, position = 0, key = 0, set = 0, rule = 0, count = 0;
    };
    void grow();
    static size_t hash(const Slot& slot);
    std::vector<Slot> slots_;
    uint32_t stamp_ = 0;
    size_t used_ = 0;
  };

  struct Bounds {
    bool counted;
    uint32_t min, max;
    bool exact;  // counts go on growing behind the minimum of a rule without maximum
  };
  Bounds bounds(const Item& item) const;
  uint32_t frame_depth(uint32_t set) const { return set >= kHole ? 0 : sets_[set].depth + 1; }
  bool within_depth(const Item& item) const {
    return frame_depth(item.set) + grammar_->positions[item.position].depth_needed <= kDepthMax;
  }

  uint32_t find_step(uint32_t set, uint8_t byte);
  void remember_steps(uint32_t set, uint8_t low, uint8_t high, uint32_t target);
  void add_to_kernel(const Item& item);
  uint32_t intern();  // the set of kernel_
  uint32_t make_set(uint64_t hash);
  bool close(uint32_t set);
  void add(const Item& item);
  void complete(uint32_t set, const Item& item);
  std::span<const Waiting> waiting_for(uint32_t set, uint32_t rule) const;

  const Grammar* grammar_;
  std::vector<Set> sets_;
  std::vector<Item> items_;
  std::vector<Waiting> waiting_;
  std::vector<std::array<uint32_t, 256>> rows_;
  std::unordered_map<uint64_t, uint32_t> by_hash_;  // the newest set with a kernel of this hash
  std::vector<Item> kernel_;
  Seen seen_;
  uint64_t work_left_ = UINT64_MAX;
  bool at_limit_ = false;
  uint32_t set_work_ = 0;          // of the set at hand
  size_t collect_above_ = 16'384;  // items and sets
  HoleBounds hole_bounds_ = HoleBounds::kReal;
};

}  // namespace twostroke::grammar
