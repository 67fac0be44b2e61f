// The target of a request line (RFC 9112, section 3.2) split into a decoded path and a raw query. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "kernels/status.h"

namespace twostroke::http {

struct RequestTarget {
  std::string path;   // percent-decoded; starts with '/', or is "*"
  std::string query;  // raw, without '?'
};

// Takes the origin form ("/path?query"), the absolute form ("http://host/path?query") and "*". Refused: other forms, a
// fragment, broken percent escapes, and control characters, NUL among them, encoded or not.
Result<RequestTarget> parse_request_target(std::string_view target);

}  // namespace twostroke::http
