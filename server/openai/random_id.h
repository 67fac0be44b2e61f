// Ids that nobody can guess: a response's id is all that it takes to ask for it again where no keys are set.
#pragma once

#include <string>
#include <string_view>

namespace twostroke::openai {

// "chatcmpl-" and the like, with 24 characters (0-9, a-z) of the operating system's randomness: 124 bits. Thread-safe.
std::string new_id(std::string_view prefix);

}  // namespace twostroke::openai
