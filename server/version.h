// The version, as CMakeLists.txt has it.
#pragma once

namespace twostroke {

inline constexpr const char* kVersion = TWOSTROKE_VERSION;

}  // namespace twostroke
