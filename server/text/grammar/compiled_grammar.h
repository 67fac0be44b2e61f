// What a Grammar is made of, for the builder that makes it and the parser that reads texts with it.
//
// Every rule is an automaton over a mixed alphabet: bytes, calls of other rules, and tokens. Its states are
// *positions*, numbered through the whole grammar. A rule that is *counted* reads its automaton min to max times; an
// item of the parser carries the number of rounds it has behind it, so that a bound of a million costs no more than one
// of three.
//
// Invariants: every position can reach a final one of its rule (what cannot be finished was removed), every edge leads
// to such a position, and calls only rules that have a text. Byte edges of one position are sorted by first byte; of a
// position that was made deterministic they do not overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/token.h"
#include "server/text/grammar/grammar.h"
#include "server/text/grammar/mask_cache.h"

namespace twostroke::grammar {

struct ByteEdge {
  uint8_t first = 0;
  uint8_t last = 0;
  uint32_t target = 0;
};

struct CallEdge {
  uint32_t rule = 0;
  uint32_t target = 0;
  bool tail = false;  // nothing follows at `target`: the callee may return straight to the caller's caller
};

struct TokenEdge {
  TokenId token = -1;
  bool except = false;  // any token but this
  uint32_t target = 0;
};

struct Position {
  uint32_t bytes_begin = 0;
  uint32_t calls_begin = 0;
  uint32_t tokens_begin = 0;
  uint32_t rule = 0;
  // How many calls deep the rest of this rule's text goes at the least: 0 when it can do without any.
  uint32_t depth_needed = 0;
  bool final = false;
};

struct Rule {
  uint32_t start = 0;
  bool counted = false;
  uint32_t min = 1;  // rounds, of a counted rule; 0 where a round may be empty, since those need not be made
  uint32_t max = 1;  // UINT32_MAX: no bound
  bool nullable = false;
};

class Grammar {
 public:
  std::span<const ByteEdge> bytes(uint32_t position) const {
    return std::span(byte_edges).subspan(positions[position].bytes_begin, count(position, &Position::bytes_begin));
  }
  std::span<const CallEdge> calls(uint32_t position) const {
    return std::span(call_edges).subspan(positions[position].calls_begin, count(position, &Position::calls_begin));
  }
  std::span<const TokenEdge> tokens(uint32_t position) const {
    return std::span(token_edges).subspan(positions[position].tokens_begin, count(position, &Position::tokens_begin));
  }
  bool has_token_edges() const { return !token_edges.empty(); }

  std::vector<Position> positions;  // and one more behind the last, which ends the ranges of edges
  std::vector<ByteEdge> byte_edges;
  std::vector<CallEdge> call_edges;
  std::vector<TokenEdge> token_edges;
  std::vector<Rule> rules;
  uint32_t root = 0;                  // a rule
  bool has_except = false;            // a token edge with `except` exists
  uint32_t depth_needed_highest = 0;  // of all positions

  mutable MaskCache masks;

 private:
  uint32_t count(uint32_t position, uint32_t Position::*begin) const {
    return positions[position + 1].*begin - positions[position].*begin;
  }
};

}  // namespace twostroke::grammar
