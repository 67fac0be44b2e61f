#include "server/text/grammar/rule_automaton.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace twostroke::grammar {
namespace {

using NfaNodes = std::vector<uint32_t>;

struct NfaNodesHash {
  size_t operator()(const NfaNodes& nodes) const {
    uint64_t hash = nodes.size();
    for (const uint32_t node : nodes) hash = (hash ^ node) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
    return static_cast<size_t>(hash);
  }
};

void sort_unique(NfaNodes& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

class Determiniser {
 public:
  Determiniser(const RuleNfa& nfa, uint32_t final, uint64_t& work)
      : nfa_(nfa), final_(final), work_(work), seen_(nfa.node_count(), 0) {}

  RuleDfa run(uint32_t start) {
    const size_t states_max = 2 * size_t{nfa_.node_count()} + 256;
    state_of({start});
    for (uint32_t state = 0; state < dfa_.states.size() && work_ > 0; ++state) {
      add_edges(state);
      if (dfa_.states.size() > states_max) return without_empty_edges(start);
    }
    return std::move(dfa_);
  }

 private:
  bool spend(uint64_t amount) {
    work_ -= std::min(work_, amount);
    return work_ > 0;
  }

  // Every node that can be reached without a symbol and has something to say: an edge with one, or the end.
  NfaNodes closure(const NfaNodes& kernel) {
    ++stamp_;
    NfaNodes stack = kernel, result;
    for (const uint32_t node : kernel) seen_[node] = stamp_;
    while (!stack.empty() && spend(1)) {
      const uint32_t node = stack.back();
      stack.pop_back();
      bool speaks = node == final_;
      for (uint32_t e = nfa_.first_edge(node); e != RuleNfa::kNone; e = nfa_.edge(e).next) {
        const RuleNfa::Edge& edge = nfa_.edge(e);
        if (edge.kind != RuleNfa::Kind::kNothing) {
          speaks = true;
        } else if (seen_[edge.target] != stamp_) {
          seen_[edge.target] = stamp_;
          stack.push_back(edge.target);
        }
        spend(1);
      }
      if (speaks) result.push_back(node);
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  uint32_t state_of(NfaNodes kernel) {
    sort_unique(kernel);
    spend(kernel.size());
    if (const auto found = by_kernel_.find(kernel); found != by_kernel_.end()) return found->second;
    NfaNodes nodes = closure(kernel);
    const auto [entry, is_new] = by_nodes_.emplace(std::move(nodes), static_cast<uint32_t>(dfa_.states.size()));
    if (is_new) {
      dfa_.states.emplace_back();
      dfa_.states.back().final = std::binary_search(entry->first.begin(), entry->first.end(), final_);
      nodes_of_.push_back(&entry->first);
    }
    const uint32_t state = entry->second;
    by_kernel_.emplace(std::move(kernel), state);
    return state;
  }

  void add_edges(uint32_t state) {
    struct Interval {
      uint32_t begin, end, target;  // [begin, end)
    };
    std::vector<Interval> intervals;
    std::map<std::pair<RuleNfa::Kind, uint32_t>, NfaNodes> symbols;
    for (const uint32_t node : *nodes_of_[state]) {
      for (uint32_t e = nfa_.first_edge(node); e != RuleNfa::kNone; e = nfa_.edge(e).next) {
        const RuleNfa::Edge& edge = nfa_.edge(e);
        spend(1);
        if (edge.kind == RuleNfa::Kind::kByte)
          intervals.push_back({edge.first, uint32_t{edge.last} + 1, edge.target});
        else if (edge.kind != RuleNfa::Kind::kNothing)
          symbols[{edge.kind, edge.symbol}].push_back(edge.target);
      }
    }
    std::vector<uint32_t> borders;
    for (const Interval& interval : intervals) borders.push_back(interval.begin), borders.push_back(interval.end);
    sort_unique(borders);
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    size_t next = 0;
    std::vector<Interval> open;
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      std::erase_if(open, [&](const Interval& interval) { return interval.end <= borders[i]; });
      for (; next < intervals.size() && intervals[next].begin == borders[i]; ++next) open.push_back(intervals[next]);
      spend(open.size());
      if (open.empty()) continue;
      NfaNodes targets;
      for (const Interval& interval : open) targets.push_back(interval.target);
      const uint32_t target = state_of(std::move(targets));
      add_bytes(dfa_.states[state].bytes, static_cast<uint8_t>(borders[i]), static_cast<uint8_t>(borders[i + 1] - 1),
                target);
    }
    for (auto& [symbol, targets] : symbols) {
      const uint32_t target = state_of(std::move(targets));
      add_symbol(dfa_.states[state], symbol.first, symbol.second, target);
    }
  }

  static void add_bytes(std::vector<ByteEdge>& edges, uint8_t first, uint8_t last, uint32_t target) {
    if (!edges.empty() && edges.back().target == target && edges.back().last + 1 == first)
      edges.back().last = last;
    else
      edges.push_back({first, last, target});
  }

  static void add_symbol(RuleDfa::State& state, RuleNfa::Kind kind, uint32_t symbol, uint32_t target) {
    if (kind == RuleNfa::Kind::kCall)
      state.calls.push_back({symbol, target});
    else
      state.tokens.push_back({static_cast<TokenId>(symbol), kind == RuleNfa::Kind::kTokenExcept, target});
  }

  // A state for each node, with the edges of all that it reaches without a symbol.
  RuleDfa without_empty_edges(uint32_t start) {
    RuleDfa result;
    std::unordered_map<uint32_t, uint32_t> states;
    NfaNodes queue;
    const auto state_for = [&](uint32_t node) {
      const auto [entry, is_new] = states.emplace(node, static_cast<uint32_t>(queue.size()));
      if (is_new) queue.push_back(node);
      return entry->second;
    };
    state_for(start);
    for (size_t i = 0; i < queue.size() && work_ > 0; ++i) {
      RuleDfa::State state;
      for (const uint32_t node : closure({queue[i]})) {
        state.final |= node == final_;
        for (uint32_t e = nfa_.first_edge(node); e != RuleNfa::kNone; e = nfa_.edge(e).next) {
          const RuleNfa::Edge& edge = nfa_.edge(e);
          if (edge.kind == RuleNfa::Kind::kByte)
            state.bytes.push_back({edge.first, edge.last, state_for(edge.target)});
          else if (edge.kind != RuleNfa::Kind::kNothing)
            add_symbol(state, edge.kind, edge.symbol, state_for(edge.target));
          spend(1);
        }
      }
      std::sort(state.bytes.begin(), state.bytes.end(),
                [](const ByteEdge& a, const ByteEdge& b) { return a.first < b.first; });
      result.states.push_back(std::move(state));
    }
    return result;
  }

  const RuleNfa& nfa_;
  const uint32_t final_;
  uint64_t& work_;
  std::vector<uint32_t> seen_;  // by node: the stamp of the closure that saw it
  uint32_t stamp_ = 0;
  RuleDfa dfa_;
  std::unordered_map<NfaNodes, uint32_t, NfaNodesHash> by_kernel_;  // targets, before the closure
  std::unordered_map<NfaNodes, uint32_t, NfaNodesHash> by_nodes_;
  std::vector<const NfaNodes*> nodes_of_;
};

}  // namespace

RuleDfa determinise(const RuleNfa& nfa, uint32_t start, uint32_t final, uint64_t& work) {
  return Determiniser(nfa, final, work).run(start);
}

}  // namespace twostroke::grammar
