#include "server/http/request_target.h"

#include <algorithm>

#include "server/http/ascii.h"

namespace twostroke::http {
namespace {

// "http://host:port/path" -> "/path"; the origin form stays as it is.
std::string_view without_authority(std::string_view target) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!starts_with_ignoring_case(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    return target.substr(end);
  }
  return target;
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = text.size() - i > 2 ? hex_value(text[i + 1]) : -1;
      const int low = text.size() - i > 2 ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) return invalid_argument("the path has a '%' that two hexadecimal digits do not follow");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (is_control(c)) return invalid_argument("the path has a control character");
    out += c;
  }
  return out;
}

}  // namespace

Result<RequestTarget> parse_request_target(std::string_view target) {
  const std::string_view origin = without_authority(target);
  const bool absolute = origin.size() != target.size();
  if (origin.find('#') != std::string_view::npos) return invalid_argument("the request target has a fragment ('#')");
  const size_t mark = std::min(origin.find('?'), origin.size());
  std::string_view path = origin.substr(0, mark);
  if (path.empty() && absolute) path = "/";
  if (path != "*" && !path.starts_with('/')) return invalid_argument("the request target does not start with '/'");

  Result<std::string> decoded = percent_decoded(path);
  if (!decoded.ok()) return decoded.status();
  const std::string_view query = origin.substr(std::min(mark + 1, origin.size()));
  if (std::any_of(query.begin(), query.end(), is_control)) {
    return invalid_argument("the query has a control character");
  }
  return RequestTarget{std::move(decoded).value(), std::string(query)};
}

}  // namespace twostroke::http
