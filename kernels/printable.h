// printable: text of others, safe to print on a terminal or as one line of a log. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace twostroke {

// `text` with its control characters (below U+0020, and U+007F to U+009F) written as \u001b: they would move the
// cursor, end the line or do worse. All else is as it was.
std::string printable(std::string_view text);

}  // namespace twostroke
