// The head of an answer as bytes. Pure; thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace twostroke::http {

enum class Framing {
  kContentLength,  // the body follows, response.body.size() bytes of it
  kChunked,        // chunks follow
  kUntilClose,     // the body ends where the connection does: streams for HTTP/1.0 clients
};

struct HeadOptions {
  Framing framing = Framing::kContentLength;
  bool keep_alive = true;
  bool http_1_0 = false;  // such a client must be told when the connection stays open
  std::string_view request_id;
  const Headers* headers = nullptr;  // beside the answer's own
  std::chrono::system_clock::time_point now;
};

// The status line and all headers, up to and with the empty line. For a content type of text/event-stream it adds what
// keeps proxies from holding events back, unless `response.headers` says otherwise.
std::string response_head(const HttpResponse& response, const HeadOptions& options);

// Whether an answer of that status may have a body at all (RFC 9110, section 6.4.1).
bool status_has_body(int status);

}  // namespace twostroke::http
