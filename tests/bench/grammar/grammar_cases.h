// What is measured: grammars, and texts of each.
#pragma once

#include <string>
#include <vector>

namespace twostroke {

struct GrammarCase {
  std::string name;
  std::string schema;  // one of the two is empty
  std::string gbnf;
  std::vector<std::string> texts;
};

std::vector<GrammarCase> grammar_cases();

}  // namespace twostroke
