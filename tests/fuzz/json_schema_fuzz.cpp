// A JSON schema, and texts of it.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "grammar_fuzz.h"
#include "server/text/grammar/json_schema.h"
#include "server/text/jinja/json_guard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twostroke::grammar;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  twostroke::JsonGuard guard(/*depth_max=*/64);
  if (!guard.check(grammar_of(text)).ok()) return 0;
  const auto schema = nlohmann::ordered_json::parse(grammar_of(text), nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded()) return 0;
  for (const bool any_whitespace : {false, true}) {
    const auto grammar = compile_json_schema(schema, {.any_whitespace = any_whitespace});
    if (!grammar.ok()) {
      CHECK(!grammar.status().message().empty());
      continue;
    }
    const Walk walk = check_grammar(*grammar, decisions_of(text));
    if (walk.complete) CHECK(nlohmann::json::accept(walk.text), walk.text);
  }
  return 0;
}
