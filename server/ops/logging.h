// Logging: spdlog, one line per event on standard error, for people or as JSON.
//
// User text never enters a log message unescaped: log_text() escapes control characters.
#pragma once

#include <string>
#include <string_view>

namespace twostroke {

// `level`: debug, info, warn or error. `format`: text or json. Call once, at the start.
void start_logging(const std::string& level, const std::string& format);

// `text` with control characters (kernels/printable.h), quotes and backslashes escaped, and cut to 200 bytes: safe
// inside a quoted log field.
std::string log_text(std::string_view text);

}  // namespace twostroke
