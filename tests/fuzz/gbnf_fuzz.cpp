// A grammar in GBNF, and texts of it.
#include <cstdint>

#include "grammar_fuzz.h"
#include "server/text/grammar/gbnf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke::grammar;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto grammar = compile_gbnf(grammar_of(text));
  if (grammar.ok()) {
    check_grammar(*grammar, decisions_of(text));
  } else {
    CHECK(!grammar.status().message().empty());
  }
  return 0;
}
