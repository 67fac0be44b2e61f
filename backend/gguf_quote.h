// quote(): text from an untrusted file, made safe to stand in a message, a log line and a terminal.
#pragma once

#include <string>
#include <string_view>

namespace twostroke {

// 'text' in quotes; anything but printable ASCII becomes '?', and long text is cut.
std::string quote(std::string_view text);

}  // namespace twostroke
