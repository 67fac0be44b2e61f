// Which variables a block hides before it sets them.
//
// Jinja2 decides when it compiles a template where each name of a block comes from. A name that the block sets before
// it reads it (and that no block around it mentions) is the block's own from its beginning: blocks and macros inside it
// find it without a value until it is set, even where the context has a variable of that name. A name that is
// set in only some branches of an `if` still comes from the context otherwise. The order that counts is that of the
// source, and blocks with variables of their own are not part of the block around them.
#pragma once

#include "server/text/jinja/ast.h"

namespace twostroke::jinja {

// Fills Body::masked throughout the program.
void find_masked_names(Program& program);

}  // namespace twostroke::jinja
