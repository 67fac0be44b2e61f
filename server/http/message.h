// HttpRequest and HttpResponse: what handlers see of HTTP. No Beast types here, so that handlers stay independent of
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twostroke::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // upper case
  std::string path;    // percent-decoded, without the query
  std::string query;   // raw, without '?'
  Headers headers;
  std::string body;    // complete; bounded by HttpLimits::body_bytes_max
  std::string remote;  // the peer's address, for logs
  std::string
      id;  // the client's X-Request-Id when it is short and printable, else a generated one; echoed in the answer
  std::vector<std::string> path_args;  // what the route's {placeholders} matched
  uint64_t tenant = 0;                 // whose API key it came with, as AccessPolicy::tenant() says; 0 without keys

  // The first header of that name (any case), or "".
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;  // 200 to 599
  std::string content_type = "application/json";
  std::string body;
  // Beside Content-Type, Content-Length, Transfer-Encoding, X-Request-Id, Date, Server and Connection, which the server
  // sets. A name is a token chosen by the program (a broken one is a broken invariant); a value may come from anywhere:
  // control characters in it are sent as spaces, so no value can end its line.
  Headers headers;
};

}  // namespace twostroke::http
