// The automaton of one rule, from a tangle of edges with and without symbols to a deterministic one.
//
// A symbol is a byte, a call of a rule, or a token. RuleNfa is put together by whoever has an expression;
// determinise() makes the RuleDfa by the subset construction, over the mixed alphabet. Where that would grow beyond a
// small multiple of what went in, only the edges without symbol are removed, and the result is not deterministic: the
// parser can live with that.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "server/text/grammar/compiled_grammar.h"

namespace twostroke::grammar {

class RuleNfa {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  enum class Kind : uint8_t { kNothing, kByte, kCall, kToken, kTokenExcept };
  struct Edge {
    Kind kind;
    uint8_t first, last;  // of kByte
    uint32_t symbol;      // a rule or a token
    uint32_t target;
    uint32_t next;  // edge of the same node, or kNone
  };

  uint32_t add_node() {
    heads_.push_back(kNone);
    return static_cast<uint32_t>(heads_.size()) - 1;
  }
  void add_empty(uint32_t from, uint32_t to) { add({Kind::kNothing, 0, 0, 0, to, 0}, from); }
  void add_bytes(uint32_t from, uint8_t first, uint8_t last, uint32_t to) {
    add({Kind::kByte, first, last, 0, to, 0}, from);
  }
  void add_symbol(uint32_t from, Kind kind, uint32_t symbol, uint32_t to) { add({kind, 0, 0, symbol, to, 0}, from); }

  uint32_t node_count() const { return static_cast<uint32_t>(heads_.size()); }
  uint32_t first_edge(uint32_t node) const { return heads_[node]; }
  const Edge& edge(uint32_t edge) const { return edges_[edge]; }

 private:
  void add(Edge edge, uint32_t from) {
    edge.next = heads_[from];
    heads_[from] = static_cast<uint32_t>(edges_.size());
    edges_.push_back(edge);
  }

  std::vector<uint32_t> heads_;
  std::vector<Edge> edges_;
};

// State 0 is the start.
struct RuleDfa {
  struct State {
    bool final = false;
    std::vector<ByteEdge> bytes;
    std::vector<CallEdge> calls;
    std::vector<TokenEdge> tokens;
  };
  std::vector<State> states;
};

// `work` counts down what may still be done (nodes looked at); the result is of no use when it reaches 0.
RuleDfa determinise(const RuleNfa& nfa, uint32_t start, uint32_t final, uint64_t& work);

}  // namespace twostroke::grammar
