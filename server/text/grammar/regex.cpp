#include "server/text/grammar/regex.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/grammar_builder.h"
#include "server/text/grammar/regex_syntax.h"

namespace twostroke::grammar {

namespace {

constexpr uint32_t kNfaStatesMax = 100'000;
constexpr uint64_t kSubsetWorkMax = 5'000'000;  // members of sets looked at while the automaton becomes deterministic

struct NfaState {
  struct Edge {
    unsigned char first;
    unsigned char last;
    uint32_t to;
  };
  std::vector<Edge> edges;
  std::vector<uint32_t> empty_edges;
  std::vector<uint32_t> begin_edges;  // only where the text begins
  std::vector<uint32_t> end_edges;    // only where it ends
};

// The bytes of a set of code points, as a tree whose equal parts are shared. Node 0 is the end.
class Utf8Tree {
 public:
  struct Branch {
    unsigned char first;
    unsigned char last;
    uint32_t node;
    auto operator<=>(const Branch&) const = default;
  };
  using Branches = std::vector<Branch>;

  explicit Utf8Tree(const CodePointSet& set) : nodes_(1) {
    // First and last code point of each length, and what its lead byte begins with.
    struct Length {
      char32_t first, last;
      int continuation_count;
      unsigned lead;
    };
    for (const Length length : {Length{0, 0x7F, 0, 0}, Length{0x80, 0x7FF, 1, 0xC0}, Length{0x800, 0xFFFF, 2, 0xE0},
                                Length{0x10000, kCodePointMax, 3, 0xF0}}) {
      CodePointSet part;
      for (const auto& [first, last] : set)
        if (first <= length.last && last >= length.first)
          part.emplace_back(std::max(first, length.first), std::min(last, length.last));
      add_branches(part, length.continuation_count, length.lead, &root_);
    }
  }

  const Branches& root() const { return root_; }
  const Branches& node(uint32_t n) const { return nodes_[n]; }
  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size()); }

 private:
  // Code points that share their next byte, or whole bytes from `first` to `last`.
  struct Piece {
    char32_t first;
    char32_t last;
    bool whole;
    CodePointSet inside;
  };
  static std::vector<Piece> pieces(const CodePointSet& set, int shift) {
    const char32_t span = (char32_t{1} << shift) - 1;
    std::vector<Piece> result;
    for (const auto& [first, last] : set) {
      for (char32_t from = first; from <= last;) {
        const char32_t byte = from >> shift;
        const char32_t base = byte << shift;
        if (from == base && last >= base + span) {
          const char32_t last_byte = ((last + 1) >> shift) - 1;
          result.push_back({byte, last_byte, true, {}});
          from = (last_byte + 1) << shift;
          continue;
        }
        if (result.empty() || result.back().whole || result.back().first != byte)
          result.push_back({byte, byte, false, {}});
        result.back().inside.emplace_back(from - base, std::min<char32_t>(last, base + span) - base);
        from = base + span + 1;
      }
    }
    return result;
  }

  // Branches for code points that have `continuation_count` bytes behind this one. Recursion ends after four bytes.
  void add_branches(const CodePointSet& set, int continuation_count, unsigned lead, Branches* branches) {
    for (const Piece& piece : pieces(set, 6 * continuation_count)) {
      const uint32_t node = piece.whole ? whole(continuation_count) : node_of(piece.inside, continuation_count);
      append(branches, lead + piece.first, lead + piece.last, node);
    }
  }
  uint32_t node_of(const CodePointSet& set, int continuation_count) {
    Branches branches;
    add_branches(set, continuation_count - 1, 0x80, &branches);
    return intern(std::move(branches));
  }
  uint32_t whole(int continuation_count) {
    uint32_t node = 0;
    for (int i = 0; i < continuation_count; ++i) node = intern({{0x80, 0xBF, node}});
    return node;
  }
  uint32_t intern(Branches branches) {
    const auto [entry, is_new] = numbers_.try_emplace(branches, static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back(std::move(branches));
    return entry->second;
  }
  static void append(Branches* branches, char32_t first, char32_t last, uint32_t node) {
    if (!branches->empty() && branches->back().node == node && branches->back().last + 1U == first)
      branches->back().last = static_cast<unsigned char>(last);
    else
      branches->push_back({static_cast<unsigned char>(first), static_cast<unsigned char>(last), node});
  }

  Branches root_;
  std::vector<Branches> nodes_;
  std::map<Branches, uint32_t> numbers_;
};

// Thompson's construction. Fails by growing beyond kNfaStatesMax, which every loop over copies looks at.
class Nfa {
 public:
  explicit Nfa(const RegexNode& root, bool anchored) {
    begin_ = add_state();
    const uint32_t inside = anchored ? begin_ : add_any_text(begin_);
    const Fragment fragment = compile(root);
    states_[inside].empty_edges.push_back(fragment.begin);
    end_ = fragment.end;
  }

  bool too_large() const { return states_.size() > kNfaStatesMax; }
  uint32_t begin() const { return begin_; }
  uint32_t end() const { return end_; }
  uint32_t size() const { return static_cast<uint32_t>(states_.size()); }
  const NfaState& state(uint32_t s) const { return states_[s]; }

 private:
  struct Fragment {
    uint32_t begin;
    uint32_t end;
  };

  uint32_t add_state() {
    states_.emplace_back();
    return static_cast<uint32_t>(states_.size() - 1);
  }
  void connect(uint32_t from, uint32_t to) { states_[from].empty_edges.push_back(to); }

  uint32_t add_any_text(uint32_t from) {
    const Fragment any = characters(Utf8Tree({{0, 0xD7FF}, {0xE000, kCodePointMax}}));
    const uint32_t loop = add_state();
    connect(from, loop);
    connect(loop, any.begin);
    connect(any.end, loop);
    return loop;
  }

  // Recursion is as deep as the tree, which the parser bounds.
  Fragment compile(const RegexNode& node) {
    switch (node.kind) {
      case RegexNode::Kind::kCharacter:
        return characters(trees_.try_emplace(&node, node.set).first->second);
      case RegexNode::Kind::kSequence:
        return sequence(node);
      case RegexNode::Kind::kChoice:
        return choice(node);
      case RegexNode::Kind::kRepeat:
        return repeat(node);
      case RegexNode::Kind::kTextBegin:
        return anchor(&NfaState::begin_edges);
      case RegexNode::Kind::kTextEnd:
        return anchor(&NfaState::end_edges);
    }
    return {0, 0};
  }

  Fragment anchor(std::vector<uint32_t> NfaState::*edges) {
    const Fragment result{add_state(), add_state()};
    (states_[result.begin].*edges).push_back(result.end);
    return result;
  }
  Fragment characters(const Utf8Tree& tree) {
    const Fragment result{add_state(), add_state()};
    std::vector<uint32_t> of_node(tree.node_count());
    of_node[0] = result.end;
    const auto add_edges = [&](uint32_t from, const Utf8Tree::Branches& branches) {
      for (const auto& b : branches) states_[from].edges.push_back({b.first, b.last, of_node[b.node]});
    };
    for (uint32_t n = 1; n < tree.node_count(); ++n) {  // what a node leads to comes before it
      of_node[n] = add_state();
      add_edges(of_node[n], tree.node(n));
    }
    add_edges(result.begin, tree.root());
    return result;
  }
  Fragment sequence(const RegexNode& node) {
    Fragment result{add_state(), 0};
    result.end = result.begin;
    for (const auto& child : node.children) {
      const Fragment part = compile(child);
      connect(result.end, part.begin);
      result.end = part.end;
      if (too_large()) break;
    }
    return result;
  }
  Fragment choice(const RegexNode& node) {
    const Fragment result{add_state(), add_state()};
    for (const auto& child : node.children) {
      const Fragment part = compile(child);
      connect(result.begin, part.begin);
      connect(part.end, result.end);
      if (too_large()) break;
    }
    return result;
  }
  Fragment repeat(const RegexNode& node) {
    const Fragment result{add_state(), add_state()};
    uint32_t at = result.begin;
    for (uint32_t i = 0; i < node.min && !too_large(); ++i) {
      const Fragment part = compile(node.children[0]);
      connect(at, part.begin);
      at = part.end;
    }
    if (node.max == UINT32_MAX) {
      const Fragment part = compile(node.children[0]);
      const uint32_t loop = add_state();
      connect(at, loop);
      connect(loop, part.begin);
      connect(part.end, loop);
      connect(loop, result.end);
      return result;
    }
    for (uint32_t i = node.min; i < node.max && !too_large(); ++i) {
      const Fragment part = compile(node.children[0]);
      connect(at, result.end);
      connect(at, part.begin);
      at = part.end;
    }
    connect(at, result.end);
    return result;
  }

  std::map<const RegexNode*, Utf8Tree> trees_;  // a repeated character is compiled many times
  std::vector<NfaState> states_;
  uint32_t begin_ = 0;
  uint32_t end_ = 0;
};

// The subset construction.
class Determinizer {
 public:
  Determinizer(const Nfa& nfa, bool anchored, const DfaLimits& limits)
      : nfa_(nfa), anchored_(anchored), limits_(limits), seen_(nfa.size(), 0) {}

  Result<Dfa> run() {
    split_bytes();
    Dfa dfa;
    dfa.byte_class = classes_.of;
    dfa.class_count = class_count();
    sets_.push_back(closure({nfa_.begin()}, true, false));
    std::vector<Set> targets(class_count());
    for (size_t i = 0; i < sets_.size(); ++i) {
      if (sets_.size() > limits_.states_max || (i + 1) * class_count() > limits_.table_max || work_ > kSubsetWorkMax)
        return automaton_too_large(limits_);
      if (!anchored_ && holds_match(sets_[i])) {  // anything may follow
        dfa.accepting.push_back(true);
        dfa.next.insert(dfa.next.end(), class_count(), Dfa::kDead);
        any_text_.push_back(static_cast<uint32_t>(i));
        continue;
      }
      dfa.accepting.push_back(holds_match(closure(sets_[i], i == 0, true)));
      for (auto& t : targets) t.clear();
      for (const uint32_t s : sets_[i])
        for (const auto& edge : nfa_.state(s).edges)
          for (uint32_t c = classes_.of[edge.first]; c <= classes_.of[edge.last]; ++c) targets[c].push_back(edge.to);
      for (auto& target : targets) {
        work_ += target.size();
        dfa.next.push_back(target.empty() ? Dfa::kDead : number(closure(target, false, false)));
      }
    }
    continue_with_any_text(&dfa);
    return minimize(dfa);
  }

 private:
  using Set = std::vector<uint32_t>;  // sorted

  uint32_t class_count() const { return static_cast<uint32_t>(classes_.representative.size()); }

  // Classes are intervals here, in order.
  void split_bytes() {
    std::array<bool, 257> begins{};
    begins[0] = true;
    for (uint32_t s = 0; s < nfa_.size(); ++s) {
      for (const auto& edge : nfa_.state(s).edges) {
        begins[edge.first] = true;
        begins[edge.last + 1U] = true;
      }
    }
    for (unsigned b = 0; b < 256; ++b) {
      if (begins[b]) classes_.representative.push_back(static_cast<unsigned char>(b));
      classes_.of[b] = static_cast<uint8_t>(classes_.representative.size() - 1);
    }
  }

  // The states that `from` leads to without a byte, where the text begins or ends as said.
  Set closure(Set from, bool at_begin, bool at_end) {
    ++generation_;
    Set result;
    const auto add = [&](const std::vector<uint32_t>& states) {
      for (const uint32_t s : states) {
        if (std::exchange(seen_[s], generation_) != generation_) result.push_back(s);
      }
      work_ += states.size();
    };
    add(from);
    for (size_t i = 0; i < result.size(); ++i) {
      const NfaState& state = nfa_.state(result[i]);
      add(state.empty_edges);
      if (at_begin) add(state.begin_edges);
      if (at_end) add(state.end_edges);
    }
    // Only states that do something make a difference; fewer sets are told apart without the others.
    if (!at_end) {
      std::erase_if(result, [&](uint32_t s) {
        const NfaState& state = nfa_.state(s);
        return state.edges.empty() && state.end_edges.empty() && s != nfa_.end();
      });
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  bool holds_match(const Set& set) const { return std::binary_search(set.begin(), set.end(), nfa_.end()); }

  uint32_t number(Set set) {
    const auto [entry, is_new] = numbers_.try_emplace(set, static_cast<uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(std::move(set));
    return entry->second;
  }

  // Joins the automaton of all text behind the states where a match has been found.
  void continue_with_any_text(Dfa* dfa) const {
    if (any_text_.empty()) return;
    const Dfa any = utf8_text();
    const uint32_t base = dfa->state_count();
    for (uint32_t s = 0; s < any.state_count(); ++s) {
      dfa->accepting.push_back(any.accepting[s]);
      for (const unsigned char byte : classes_.representative) {
        const uint32_t to = any.step(s, byte);
        dfa->next.push_back(to == Dfa::kDead ? to : base + to);
      }
    }
    for (const uint32_t s : any_text_)
      for (uint32_t c = 0; c < class_count(); ++c)
        dfa->next[s * class_count() + c] = dfa->next[base * class_count() + c];
  }

  const Nfa& nfa_;
  bool anchored_;
  DfaLimits limits_;
  ByteClasses classes_;
  std::vector<uint32_t> seen_;  // the closure that last came by
  uint32_t generation_ = 0;
  uint64_t work_ = 0;
  std::vector<Set> sets_;
  std::map<Set, uint32_t> numbers_;  // without set 0: only there the text begins
  std::vector<uint32_t> any_text_;   // sets that hold a match, after which all else is allowed
};

}  // namespace

Result<Dfa> compile_regex(std::string_view pattern, bool anchored, const RegexLimits& limits) {
  const Result<RegexNode> tree = parse_regex(pattern, limits.depth_max);
  if (!tree.ok()) return tree.status();
  DfaLimits dfa_limits;
  dfa_limits.states_max = limits.states_max;
  const Nfa nfa(*tree, anchored);
  if (nfa.too_large()) return automaton_too_large(dfa_limits);
  return Determinizer(nfa, anchored, dfa_limits).run();
}

Result<std::shared_ptr<const Grammar>> compile_regex_grammar(std::string_view pattern) {
  Result<Dfa> dfa = compile_regex(pattern, true);
  if (!dfa.ok()) return dfa.status();
  GrammarBuilder builder;
  return builder.build(builder.automaton(*std::move(dfa)));
}

}  // namespace twostroke::grammar
