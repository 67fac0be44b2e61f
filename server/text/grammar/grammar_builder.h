// GrammarBuilder: a context-free grammar over bytes, put together from expressions. GBNF, regexes, JSON Schema and tool
// calls all become a Grammar through it.
//
// Expressions are ids that belong to one builder; using one twice is fine (it is shared, not copied). Rules may refer
// to each other and to themselves in any order, left recursion included.
//
// Limits keep compilation small whatever a client sends (GrammarLimits). A limit that is reached shows in build(), and
// what is built after it counts no more. How deep expressions nest does not matter: nothing here recurses.
//
// An expression that is used at several places, and is not small, becomes a rule of its own, and so does every
// repeat() with more than a few rounds: matchers keep what they learn by rule, so that sharing makes masks cheap, too.
//
// Thread-safety: one user at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/status.h"
#include "kernels/token.h"
#include "server/text/grammar/dfa.h"
#include "server/text/grammar/grammar.h"

namespace twostroke::grammar {

using ExprId = uint32_t;
using RuleId = uint32_t;

constexpr uint32_t kUnbounded = UINT32_MAX;

struct GrammarLimits {
  uint32_t expressions_max = 1'000'000;
  uint32_t rules_max = 100'000;
  uint32_t repeat_max = 1'000'000;         // bounds of repeat(); counted, not unrolled
  uint32_t bytes_max = 32'000'000;         // of all literals
  uint32_t positions_max = 4'000'000;      // states of all rules' automata
  uint64_t compile_work_max = 60'000'000;  // edges and nodes that build() looks at: about a second
};

// Code points [first, last], both with.
using CodePointRange = std::pair<char32_t, char32_t>;

class GrammarBuilder {
 public:
  explicit GrammarBuilder(const GrammarLimits& limits = {});
  ~GrammarBuilder();
  GrammarBuilder(const GrammarBuilder&) = delete;
  GrammarBuilder& operator=(const GrammarBuilder&) = delete;

  ExprId empty();                          // the empty text
  ExprId never();                          // no text at all
  ExprId literal(std::string_view bytes);  // exactly these bytes
  // One code point of the ranges (or outside all of them, with `negated`), in UTF-8. Surrogates are never part of it.
  ExprId code_point(std::span<const CodePointRange> ranges, bool negated = false);
  ExprId sequence(std::span<const ExprId> parts);
  ExprId choice(std::span<const ExprId> alternatives);
  // `part`, `min` to `max` times (kUnbounded: no end).
  ExprId repeat(ExprId part, uint32_t min, uint32_t max);
  ExprId automaton(Dfa dfa);  // one text of a regular language
  // Exactly this token, whatever its bytes; meant for control tokens, which have none in a text ("[TOOL_CALLS]" where
  // the vocabulary has it as one).
  ExprId control_token(TokenId token);
  // One token as a whole, any but this: a control token, or one with bytes, which are not looked at. Where a text is
  // read without its tokens (Matcher::accept), each of its characters counts as a token.
  ExprId token_except(TokenId token);

  RuleId add_rule(std::string name);  // names are for messages; they need not be unique
  void define(RuleId rule, ExprId body);
  ExprId reference(RuleId rule);

  // `root` may be built upon further. Errors: kInvalidArgument: a rule without a definition that root needs, a limit
  // reached, or no text at all matches (named).
  Result<std::shared_ptr<const Grammar>> build(ExprId root);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace twostroke::grammar
