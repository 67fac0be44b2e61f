// The sub-commands that look at the text side of a model without serving it: tokenize, render and grammar.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace twostroke {

// `arguments` are those behind the sub-command's name. Each returns the process's exit code: 0, or 1 with the reason on
// `err`, or 2 for wrong arguments.

// twostroke tokenize --model FILE [--add-special] [--parse-special]: text on `in`, exactly as it is; its token ids on
// one line of `out`.
int tokenize_command(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err);

// twostroke render --template FILE --context FILE: the rendered prompt on `out`, without an added line end. The
// environment variable TWOSTROKE_NOW (ISO 8601, 2026-07-01T12:00[:00]) fixes what strftime_now sees.
int render_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

// twostroke grammar --schema FILE | --gbnf FILE | --regex TEXT: whether the text on `in`, exactly as it is (a line end
// at its end is part of it), is one of the grammar's. 0: it is; 1: it is not, with the first byte that cannot follow on
// `err`; 2: the grammar cannot be read or is not supported, with the reason.
int grammar_command(const std::vector<std::string>& arguments, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace twostroke
