// What was said to a GrammarBuilder, as plain data for the compiler.
//
// Parts of an expression have smaller ids than it, so that one pass over the ids sees parts first. Equal expressions
// have one id.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/text/grammar/dfa.h"
#include "server/text/grammar/grammar_builder.h"

namespace twostroke::grammar {

enum class ExprKind : uint8_t {
  kEmpty,
  kNever,
  kLiteral,      // bytes[begin, begin + size)
  kCodePoint,    // ranges[begin, begin + size), normal
  kSequence,     // children[begin, begin + size)
  kChoice,       // the same
  kRepeat,       // children[begin], min to max times
  kAutomaton,    // automata[begin]
  kToken,        // token `begin`
  kTokenExcept,  // any token but `begin`
  kReference,    // rules[begin]
};

struct Expression {
  ExprKind kind;
  uint32_t begin = 0;
  uint32_t size = 0;
  uint32_t min = 0;
  uint32_t max = 0;
};

struct RuleDefinition {
  std::string name;
  ExprId body = 0;
  bool defined = false;
};

struct Expressions {
  std::vector<Expression> all;
  std::vector<ExprId> children;
  std::string bytes;
  std::vector<CodePointRange> ranges;
  std::vector<Dfa> automata;
  std::vector<RuleDefinition> rules;

  std::span<const ExprId> parts(const Expression& expression) const {
    return std::span(children).subspan(expression.begin, expression.size);
  }
  std::string_view literal(const Expression& expression) const {
    return std::string_view(bytes).substr(expression.begin, expression.size);
  }
};

}  // namespace twostroke::grammar
