#include "server/openai/query.h"

#include <algorithm>
#include <charconv>

namespace twostroke::openai {

std::string_view query_parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
      return pair.substr(name.size() + 1);
    }
  }
  return {};
}

std::variant<size_t, ApiError> query_count(std::string_view query, const std::string& name, size_t otherwise,
                                           size_t most) {
  const std::string_view text = query_parameter(query, name);
  if (text.empty()) return otherwise;
  size_t count = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), text_end, count);
  if (error == std::errc() && end == text_end && count >= 1 && count <= most) return count;
  return bad_field(name, "'" + name + "' must be an integer between 1 and " + std::to_string(most) + ".");
}

}  // namespace twostroke::openai
