// Makes the syntax tree of a template: Jinja2's grammar with the loop controls and transformers' `generation` block.
#pragma once

#include <string_view>

#include "server/text/jinja/ast.h"
#include "server/text/jinja/limits.h"

namespace twostroke::jinja {

// Throws Failure with a line. `source` is valid UTF-8 and within the limit on its size.
Program parse_program(std::string_view source, const Limits& limits);

}  // namespace twostroke::jinja
