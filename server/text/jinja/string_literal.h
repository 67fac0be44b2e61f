// The escapes of a string literal, as Python's unicode-escape codec reads them.
#pragma once

#include <string>
#include <string_view>

namespace twostroke::jinja {

// `body` is what stands between the quotes. Throws Failure with `line` on a broken escape. An unknown one (\d) keeps
// its backslash, as in Python.
std::string unescape(std::string_view body, int line);

}  // namespace twostroke::jinja
