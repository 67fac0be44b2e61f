// Parameters in the query of a URL, not decoded: the ids, words and numbers that are asked for need no escapes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "server/openai/api_error.h"

namespace twostroke::openai {

// "" where there is none of that name.
std::string_view query_parameter(std::string_view query, std::string_view name);

// A number from 1 to `most`; `otherwise` where there is none of that name; the 400 for anything else.
std::variant<size_t, ApiError> query_count(std::string_view query, const std::string& name, size_t otherwise,
                                           size_t most);

}  // namespace twostroke::openai
