// What the parser needs to know of a grammar before it reads a text: which rules may be empty, how deep calls must go,
// and what can never be finished. All of it is linear in the grammar, up to a logarithm.
//
// The depth is Knuth's generalisation of Dijkstra's algorithm to grammars (A Generalization of Dijkstra's Algorithm,
// 1977) with the maximum as the superior function; a position that it does not reach has no text.

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "server/text/grammar/grammar_compiler.h"

namespace twostroke::grammar {
namespace {

// Values of edges, by the node that they lead to: [begin[n], begin[n + 1]).
class Incoming {
 public:
  explicit Incoming(uint32_t nodes) : begin_(nodes + 2) {}
  void count(uint32_t node) { ++begin_[node + 2]; }
  void counted() {
    for (size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    values_.resize(begin_.back());
  }
  void add(uint32_t node, uint32_t value) { values_[begin_[node + 1]++] = value; }
  std::span<const uint32_t> of(uint32_t node) const {
    return std::span(values_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }

 private:
  std::vector<uint32_t> begin_, values_;
};

class Analysis {
 public:
  explicit Analysis(Grammar& grammar)
      : grammar_(grammar),
        count_(static_cast<uint32_t>(grammar.positions.size()) - 1),
        sources_(count_),
        calls_to_(count_),
        calls_of_(static_cast<uint32_t>(grammar.rules.size())),
        caller_(grammar.call_edges.size()) {
    for_each_edge([&](uint32_t, uint32_t target) { sources_.count(target); },
                  [&](uint32_t, const CallEdge& call) { calls_to_.count(call.target), calls_of_.count(call.rule); });
    sources_.counted(), calls_to_.counted(), calls_of_.counted();
    for_each_edge([&](uint32_t source, uint32_t target) { sources_.add(target, source); },
                  [&](uint32_t source, const CallEdge& call) {
                    const auto number = static_cast<uint32_t>(&call - grammar_.call_edges.data());
                    caller_[number] = source;
                    calls_to_.add(call.target, number);
                    calls_of_.add(call.rule, number);
                  });
  }

  bool run() {
    find_nullable();
    find_depths();
    const uint32_t root_start = grammar_.rules[grammar_.root].start;
    if (!reached_[root_start] && !grammar_.rules[grammar_.root].nullable) return false;
    remove_unreached();
    mark_tails();
    return true;
  }

 private:
  template <typename OnSymbol, typename OnCall>
  void for_each_edge(OnSymbol on_symbol, OnCall on_call) const {
    for (uint32_t p = 0; p < count_; ++p) {
      for (const ByteEdge& edge : grammar_.bytes(p)) on_symbol(p, edge.target);
      for (const TokenEdge& edge : grammar_.tokens(p)) on_symbol(p, edge.target);
      for (const CallEdge& edge : grammar_.calls(p)) on_call(p, edge);
    }
  }

  void find_nullable() {
    std::vector<bool> empty_to_final(count_, false);
    std::vector<uint32_t> queue;
    const auto mark_position = [&](uint32_t p) {
      if (!empty_to_final[p]) empty_to_final[p] = true, queue.push_back(p);
    };
    const auto mark_rule = [&](uint32_t r) {
      if (grammar_.rules[r].nullable) return;
      grammar_.rules[r].nullable = true;
      for (const uint32_t call : calls_of_.of(r)) {
        if (empty_to_final[grammar_.call_edges[call].target]) mark_position(caller_[call]);
      }
    };
    for (uint32_t p = 0; p < count_; ++p) {
      if (grammar_.positions[p].final) mark_position(p);
    }
    for (uint32_t r = 0; r < grammar_.rules.size(); ++r) {
      if (grammar_.rules[r].counted && grammar_.rules[r].min == 0) mark_rule(r);
    }
    while (!queue.empty()) {
      const uint32_t p = queue.back();
      queue.pop_back();
      for (const uint32_t call : calls_to_.of(p)) {
        if (grammar_.rules[grammar_.call_edges[call].rule].nullable) mark_position(caller_[call]);
      }
      Rule& rule = grammar_.rules[grammar_.positions[p].rule];
      if (rule.start != p) continue;
      rule.min = 0;  // rounds that may be empty need not be made
      mark_rule(grammar_.positions[p].rule);
    }
  }

  void find_depths() {
    using Entry = std::pair<uint32_t, uint32_t>;  // depth, position
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    reached_.assign(count_, false);
    const auto depth = [&](uint32_t p) -> uint32_t& { return grammar_.positions[p].depth_needed; };
    const auto offer = [&](uint32_t call) {
      const CallEdge& edge = grammar_.call_edges[call];
      const Rule& rule = grammar_.rules[edge.rule];
      if (reached_[edge.target] && (rule.nullable || reached_[rule.start]))
        queue.push({std::max(depth(edge.target), rule.nullable ? 0 : depth(rule.start) + 1), caller_[call]});
    };
    for (uint32_t p = 0; p < count_; ++p) {
      if (grammar_.positions[p].final) queue.push({0, p});
    }
    while (!queue.empty()) {
      const auto [value, p] = queue.top();
      queue.pop();
      if (reached_[p]) continue;
      reached_[p] = true;
      depth(p) = value;
      for (const uint32_t source : sources_.of(p)) {
        if (!reached_[source]) queue.push({value, source});
      }
      for (const uint32_t call : calls_to_.of(p)) offer(call);
      const uint32_t rule = grammar_.positions[p].rule;
      if (grammar_.rules[rule].start == p && !grammar_.rules[rule].nullable) {
        for (const uint32_t call : calls_of_.of(rule)) offer(call);
      }
    }
    for (uint32_t p = 0; p < count_; ++p) {  // behind a round may come another
      const Rule& rule = grammar_.rules[grammar_.positions[p].rule];
      if (rule.counted && rule.min > 1 && reached_[rule.start]) depth(p) = std::max(depth(p), depth(rule.start));
    }
  }

  // A rule that may be empty keeps its start, even if that is a dead end.
  void remove_unreached() {
    std::vector<uint32_t> number(count_, UINT32_MAX);
    std::vector<bool> is_start(count_, false);
    for (const Rule& rule : grammar_.rules) is_start[rule.start] = true;
    uint32_t kept = 0;
    for (uint32_t p = 0; p < count_; ++p) {
      if (reached_[p] || is_start[p]) number[p] = kept++;
    }
    Grammar rest;
    const auto end_of_edges = [&](Position position) {
      position.bytes_begin = static_cast<uint32_t>(rest.byte_edges.size());
      position.calls_begin = static_cast<uint32_t>(rest.call_edges.size());
      position.tokens_begin = static_cast<uint32_t>(rest.token_edges.size());
      rest.positions.push_back(position);
    };
    for (uint32_t p = 0; p < count_; ++p) {
      if (number[p] == UINT32_MAX) continue;
      end_of_edges(grammar_.positions[p]);
      grammar_.depth_needed_highest = std::max(grammar_.depth_needed_highest, grammar_.positions[p].depth_needed);
      for (ByteEdge edge : grammar_.bytes(p)) {
        if (!reached_[edge.target]) continue;
        edge.target = number[edge.target];
        rest.byte_edges.push_back(edge);
      }
      for (CallEdge edge : grammar_.calls(p)) {
        const Rule& rule = grammar_.rules[edge.rule];
        if (!reached_[edge.target] || !(rule.nullable || reached_[rule.start])) continue;
        edge.target = number[edge.target];
        rest.call_edges.push_back(edge);
      }
      for (TokenEdge edge : grammar_.tokens(p)) {
        if (!reached_[edge.target]) continue;
        edge.target = number[edge.target];
        rest.token_edges.push_back(edge);
        grammar_.has_except = grammar_.has_except || edge.except;
      }
    }
    end_of_edges({});
    for (Rule& rule : grammar_.rules) rule.start = number[rule.start];
    grammar_.positions = std::move(rest.positions);
    grammar_.byte_edges = std::move(rest.byte_edges);
    grammar_.call_edges = std::move(rest.call_edges);
    grammar_.token_edges = std::move(rest.token_edges);
  }

  void mark_tails() {
    for (uint32_t p = 0; p + 1 < grammar_.positions.size(); ++p) {
      if (grammar_.rules[grammar_.positions[p].rule].counted) continue;
      const Position &begin = grammar_.positions[p], &end = grammar_.positions[p + 1];
      for (uint32_t i = begin.calls_begin; i < end.calls_begin; ++i) {
        CallEdge& call = grammar_.call_edges[i];
        call.tail = grammar_.positions[call.target].final && grammar_.bytes(call.target).empty() &&
                    grammar_.calls(call.target).empty() && grammar_.tokens(call.target).empty();
      }
    }
  }

  Grammar& grammar_;
  const uint32_t count_;          // positions
  Incoming sources_;              // by position: those with a byte or token edge to it
  Incoming calls_to_, calls_of_;  // call edges, by the position they lead to and by the rule they call
  std::vector<uint32_t> caller_;  // by call edge: the position that has it
  std::vector<bool> reached_;     // by position: its rule can be finished from there
};

}  // namespace

bool analyse(Grammar& grammar) { return Analysis(grammar).run(); }

}  // namespace twostroke::grammar
