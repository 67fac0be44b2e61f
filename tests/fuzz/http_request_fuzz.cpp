// RequestParser: whatever arrives, and however it is cut into pieces, the outcome is the same.
#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/check.h"
#include "server/http/request_parser.h"
#include "server/http/server.h"

namespace twostroke::http {
namespace {

// Small, so that the limits are met.
HttpLimits limits() {
  HttpLimits limits;
  limits.header_bytes_max = 512;
  limits.header_count_max = 8;
  limits.body_bytes_max = 256;
  return limits;
}

// Offers `text` in pieces of `piece` bytes, as a connection does; returns what was consumed.
size_t feed(RequestParser& parser, std::string_view text, size_t piece) {
  size_t begin = 0;
  for (size_t end = 0; end < text.size();) {
    end = std::min(text.size(), end + piece);
    size_t consumed = 0;
    do {
      consumed = parser.feed(text.substr(begin, end - begin));
      CHECK(consumed <= end - begin);
      begin += consumed;
    } while (consumed > 0 && parser.stage() == RequestParser::Stage::kHeader);
    while (parser.stage() == RequestParser::Stage::kBody && begin < end) {
      consumed = parser.feed(text.substr(begin, end - begin));
      begin += consumed;
      if (consumed == 0) break;
    }
    if (parser.stage() == RequestParser::Stage::kComplete || parser.stage() == RequestParser::Stage::kRejected) break;
  }
  return begin;
}

}  // namespace
}  // namespace twostroke::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using twostroke::http::RequestParser;
  if (size == 0) return 0;
  const size_t piece = data[0] % 16 + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static const auto limits = twostroke::http::limits();

  RequestParser whole(limits);
  RequestParser pieces(limits);
  const size_t consumed = twostroke::http::feed(whole, text, std::max<size_t>(text.size(), 1));
  const size_t consumed_in_pieces = twostroke::http::feed(pieces, text, piece);
  CHECK(whole.stage() == pieces.stage());
  if (whole.stage() == RequestParser::Stage::kRejected) {
    CHECK(whole.rejection().status == pieces.rejection().status);
    CHECK(whole.rejection().message == pieces.rejection().message);
  }
  if (whole.stage() != RequestParser::Stage::kComplete) return 0;
  CHECK(consumed == consumed_in_pieces);
  CHECK(whole.keep_alive() == pieces.keep_alive() && whole.http_1_0() == pieces.http_1_0());
  const auto request = whole.take();
  const auto again = pieces.take();
  CHECK(request.method == again.method && request.path == again.path && request.query == again.query);
  CHECK(request.headers == again.headers && request.body == again.body);
  CHECK(request.body.size() <= limits.body_bytes_max && request.headers.size() <= limits.header_count_max);
  CHECK(request.path.starts_with('/') || request.path == "*");
  return 0;
}
