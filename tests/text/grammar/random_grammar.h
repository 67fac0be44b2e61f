// Random grammars, as text in GBNF and as data for a recogniser that knows nothing of the parser under test.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace twostroke::grammar {

// An expression over the letters 'a' to 'd'.
struct RandomExpr {
  enum class Kind { kText, kClass, kSequence, kChoice, kRepeat, kRule };
  Kind kind = Kind::kText;
  std::string text;               // of kText, and the letters of kClass
  std::vector<RandomExpr> parts;  // of kSequence, kChoice, kRepeat
  uint32_t min = 0, max = 0;      // of kRepeat; UINT32_MAX: no bound
  uint32_t rule = 0;              // of kRule
};

struct RandomGrammar {
  std::vector<RandomExpr> rules;  // the first is the root

  std::string gbnf() const;
};

// Up to `rules` rules, which refer to each other and to themselves as chance has it: left recursion, rules that may be
// empty and ambiguity are common.
RandomGrammar random_grammar(std::mt19937_64& random, uint32_t rules);

// Whether `text` is one of the grammar's: by closing the set of (expression, begin, end) under what expressions mean,
// until nothing is new. Slow and simple; short texts only.
bool recognises(const RandomGrammar& grammar, const std::string& text);

}  // namespace twostroke::grammar
