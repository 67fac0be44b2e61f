// A regular expression, and texts of it.
#include <cstdint>

#include "grammar_fuzz.h"
#include "server/text/grammar/regex.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke::grammar;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view pattern = grammar_of(text);
  const RegexLimits limits{.states_max = 2'000};
  const auto whole = compile_regex(pattern, /*anchored=*/true, limits);
  const auto within = compile_regex(pattern, /*anchored=*/false, limits);
  if (!whole.ok() || !within.ok()) {
    CHECK(whole.ok() || !whole.status().message().empty());
    return 0;
  }
  const auto grammar = compile_regex_grammar(pattern);
  if (!grammar.ok()) return 0;
  const Walk walk = check_grammar(*grammar, decisions_of(text));
  CHECK(whole->matches(walk.text) == walk.complete, "the automaton and the grammar are of one language");
  if (walk.complete) CHECK(within->matches(walk.text), "what matches as a whole holds a match");
  return 0;
}
