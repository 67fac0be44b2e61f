#include "tests/text/grammar/random_grammar.h"

namespace twostroke::grammar {
namespace {

using Kind = RandomExpr::Kind;

uint32_t below(std::mt19937_64& random, uint32_t bound) { return static_cast<uint32_t>(random() % bound); }

RandomExpr random_expr(std::mt19937_64& random, uint32_t rules, uint32_t depth) {
  RandomExpr expr;
  const uint32_t choice = below(random, depth == 0 ? 4 : 9);
  if (choice < 2) {
    for (uint32_t length = below(random, 6) == 0 ? 0 : 1 + below(random, 2); length > 0; --length)
      expr.text.push_back(static_cast<char>('a' + below(random, 4)));
  } else if (choice == 2) {
    expr.kind = Kind::kClass;
    expr.text.push_back(static_cast<char>('a' + below(random, 4)));
    if (below(random, 2) == 0) expr.text.push_back(static_cast<char>('a' + below(random, 4)));
  } else if (choice == 3) {
    expr.kind = Kind::kRule;
    expr.rule = below(random, rules);
  } else if (choice < 8) {
    expr.kind = choice < 6 ? Kind::kSequence : Kind::kChoice;
    for (uint32_t parts = 2 + below(random, 2); parts > 0; --parts)
      expr.parts.push_back(random_expr(random, rules, depth - 1));
  } else {
    expr.kind = Kind::kRepeat;
    expr.parts.push_back(random_expr(random, rules, depth - 1));
    expr.min = below(random, 3);
    expr.max = below(random, 2) == 0 ? UINT32_MAX : expr.min + below(random, 3);
    if (below(random, 4) == 0) {  // more rounds than are written out
      expr.min = below(random, 40);
      expr.max = expr.min + 30;
    }
  }
  return expr;
}

void print(const RandomExpr& expr, std::string& out) {
  switch (expr.kind) {
    case Kind::kText:
      out += '"' + expr.text + '"';
      break;
    case Kind::kClass:
      out += '[' + expr.text + ']';
      break;
    case Kind::kRule:
      out += expr.rule == 0 ? "root" : "r" + std::to_string(expr.rule);
      break;
    default:
      out += '(';
      for (size_t i = 0; i < expr.parts.size(); ++i) {
        if (i > 0) out += expr.kind == Kind::kChoice ? " | " : " ";
        print(expr.parts[i], out);
      }
      out += ')';
      if (expr.kind == Kind::kRepeat) {
        out += '{' + std::to_string(expr.min) + ',';
        if (expr.max != UINT32_MAX) out += std::to_string(expr.max);
        out += '}';
      }
  }
}

// Sets of ends, as bits: ends[begin] of a text of at most 63 characters.
using Ends = std::vector<uint64_t>;

class Recogniser {
 public:
  Recogniser(const RandomGrammar& grammar, const std::string& text)
      : grammar_(grammar), text_(text), known_(grammar.rules.size(), Ends(text.size() + 1)) {}

  bool run() {
    for (bool news = true; news;) {
      news = false;
      for (size_t rule = 0; rule < known_.size(); ++rule) {
        Ends ends = ends_of(grammar_.rules[rule]);
        news = news || ends != known_[rule];
        known_[rule] = std::move(ends);
      }
    }
    return known_[0][0] >> text_.size() & 1;
  }

 private:
  Ends ends_of(const RandomExpr& expr) const {
    Ends ends(text_.size() + 1);
    for (size_t begin = 0; begin <= text_.size(); ++begin) ends[begin] = 0;
    switch (expr.kind) {
      case Kind::kText:
        for (size_t begin = 0; begin + expr.text.size() <= text_.size(); ++begin) {
          if (text_.compare(begin, expr.text.size(), expr.text) == 0)
            ends[begin] = uint64_t{1} << (begin + expr.text.size());
        }
        break;
      case Kind::kClass:
        for (size_t begin = 0; begin < text_.size(); ++begin) {
          if (expr.text.find(text_[begin]) != std::string::npos) ends[begin] = uint64_t{1} << (begin + 1);
        }
        break;
      case Kind::kRule:
        return known_[expr.rule];
      case Kind::kChoice:
        for (const RandomExpr& part : expr.parts) {
          const Ends more = ends_of(part);
          for (size_t begin = 0; begin < ends.size(); ++begin) ends[begin] |= more[begin];
        }
        break;
      case Kind::kSequence: {
        ends = nothing();
        for (const RandomExpr& part : expr.parts) ends = then(ends, ends_of(part));
        break;
      }
      case Kind::kRepeat: {
        const Ends part = ends_of(expr.parts[0]);
        Ends rounds = nothing();
        for (uint32_t i = 0; i < expr.min; ++i) rounds = then(rounds, part);
        ends = rounds;
        // Behind the minimum, as many more as can change something.
        const uint32_t more = expr.max == UINT32_MAX ? static_cast<uint32_t>(text_.size()) : expr.max - expr.min;
        for (uint32_t i = 0; i < more; ++i) {
          rounds = then(rounds, part);
          for (size_t begin = 0; begin < ends.size(); ++begin) ends[begin] |= rounds[begin];
        }
        break;
      }
    }
    return ends;
  }

  Ends nothing() const {
    Ends ends(text_.size() + 1);
    for (size_t begin = 0; begin < ends.size(); ++begin) ends[begin] = uint64_t{1} << begin;
    return ends;
  }

  static Ends then(const Ends& first, const Ends& second) {
    Ends ends(first.size());
    for (size_t begin = 0; begin < first.size(); ++begin) {
      for (size_t middle = begin; middle < first.size(); ++middle) {
        if (first[begin] >> middle & 1) ends[begin] |= second[middle];
      }
    }
    return ends;
  }

  const RandomGrammar& grammar_;
  const std::string& text_;
  std::vector<Ends> known_;  // by rule
};

}  // namespace

std::string RandomGrammar::gbnf() const {
  std::string text;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    text += rule == 0 ? "root ::= " : "r" + std::to_string(rule) + " ::= ";
    print(rules[rule], text);
    text += '\n';
  }
  return text;
}

RandomGrammar random_grammar(std::mt19937_64& random, uint32_t rules) {
  RandomGrammar grammar;
  const uint32_t count = 1 + below(random, rules);
  for (uint32_t rule = 0; rule < count; ++rule)
    grammar.rules.push_back(random_expr(random, count, 1 + below(random, 3)));
  return grammar;
}

bool recognises(const RandomGrammar& grammar, const std::string& text) { return Recogniser(grammar, text).run(); }

}  // namespace twostroke::grammar
