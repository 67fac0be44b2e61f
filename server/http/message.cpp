#include "server/http/message.h"

#include "server/http/ascii.h"

namespace twostroke::http {

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [header_name, value] : headers) {
    if (equal_ignoring_case(header_name, name)) return value;
  }
  return {};
}

}  // namespace twostroke::http
