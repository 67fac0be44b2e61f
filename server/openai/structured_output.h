// Structured output: `response_format` and `structured_outputs`, read, and turned into a grammar that the answer's text
// keeps to.
#pragma once

#include <memory>
#include <string>

#include "server/openai/field_reader.h"
#include "server/openai/grammar_cache.h"
#include "server/openai/tool_options.h"
#include "server/text/reply/reply_syntax.h"

namespace twostroke::openai {

constexpr size_t kChoiceStringsMax = 1024;
constexpr size_t kGrammarBytesMax = size_t{1} << 20;  // of a regex, a GBNF text, a schema as text, or one choice

struct OutputConstraint {
  enum class Kind : uint8_t { kJsonObject, kJsonSchema, kRegex, kChoice, kGbnf };
  Kind kind = Kind::kJsonObject;
  Json schema;                       // kJsonSchema
  std::string text;                  // kRegex, kGbnf
  std::vector<std::string> choices;  // kChoice: the text is one of these
  std::string param;                 // the field that asks for it
};

// nullptr when any text will do. Fails on a format that does not exist, on several at once, and on a schema that is
// missing; whether it can be compiled shows later.
std::shared_ptr<const OutputConstraint> read_output_constraint(FieldReader& fields);

// The grammar, from the cache if it is there. Takes its time: on a text thread.
// Errors: kUnsupported or kInvalidArgument, as the compilers say it; both are the client's fault.
GrammarCache::Compiled compile_constraint(const OutputConstraint& constraint, GrammarCache& cache);

// Whether calls that the model may make, and need not, are held to a form: one of a strict function, or any where the
// answer itself has a JSON format.
bool constrains_calls(const ToolOptions& tools, const OutputConstraint* constraint);

// The same for calls, in the model's own form: those that `tools` demands, or with auto those that the model makes;
// `constraint`, or null, is then what the answer must be like where it does not call. `prompt_end` as in
// reply::ParseOptions.
GrammarCache::Compiled compile_tool_demand(const ToolOptions& tools, const OutputConstraint* constraint,
                                           const std::string& prompt_end, const reply::ReplySyntax& syntax,
                                           GrammarCache& cache);

}  // namespace twostroke::openai
