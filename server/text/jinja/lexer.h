// Cuts a template into tokens, with transformers' settings: trim_blocks (the line end after a block tag or comment
// goes), lstrip_blocks (so does the white space before one that stands first in its line), one line end at the end of
// the source goes; `-` and `+` in a tag override them. Line ends become "\n".
#pragma once

#include <string_view>
#include <vector>

#include "server/text/jinja/token.h"

namespace twostroke::jinja {

// Throws Failure with a line. `source` is valid UTF-8. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace twostroke::jinja
