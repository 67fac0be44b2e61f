// RequestParser: the bytes of one request to an HttpRequest, or to the error that refuses it.
//
// Beast reads the header; this class adds what Beast leaves open: the limit on the whole header (Beast limits only what
// it has not consumed), the limit on the count of fields, the refusal of ambiguous framing (RFC 9112, section 6.3), an
// early no to bytes that are not HTTP, and the body, whose limits it keeps. The outcome does not depend on how the
// bytes are cut into pieces.
//
// No I/O and no clock. Not thread-safe; one parser reads one request.
#pragma once

#include <optional>
#include <string_view>

#include "server/http/chunked_decoder.h"
#include "server/http/error_body.h"
#include "server/http/message.h"

namespace twostroke::http {

struct HttpLimits;

class RequestParser {
 public:
  enum class Stage {
    kHeader,    // the header is not complete
    kBody,      // the header is, the body is not
    kComplete,  // take() gives the request
    kRejected,  // rejection() says why; the connection cannot go on
  };

  // `limits` must live as long as the parser.
  explicit RequestParser(const HttpLimits& limits) : limits_(limits) {}

  // Offers all bytes that have arrived and were not consumed yet, and returns how many of them are consumed now. Stops
  // at the end of the header and at the end of the request; call again while it consumes. Consuming nothing in stage
  // kHeader means: more bytes are needed, together with these, and never more than header_bytes_max in all.
  size_t feed(std::string_view bytes);

  Stage stage() const { return stage_; }
  const HttpError& rejection() const { return rejection_; }

  // From stage kBody on.
  bool expects_continue() const { return expects_continue_; }
  bool keep_alive() const { return keep_alive_; }
  bool http_1_0() const { return http_1_0_; }

  // What has been read, from stage kBody on; empty before. Of what is rejected, what could be read of its header.
  const HttpRequest& head() const { return request_; }

  // In stage kComplete, once. `remote`, `id` and `path_args` are left for the caller.
  HttpRequest take();

 private:
  size_t feed_header(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  size_t feed_chunked(std::string_view bytes);
  // Each of these may reject; then stage() says so.
  void parse_header(std::string_view header);
  void read_framing();
  void check_host();
  void check_expectation();
  void reject(int status, std::string_view message, std::string_view code);
  void reject_body();
  size_t body_bytes_max() const;

  const HttpLimits& limits_;
  Stage stage_ = Stage::kHeader;
  size_t scanned_ = 0;  // of the bytes offered in stage kHeader, how many hold no end of the header
  bool expects_continue_ = false;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  size_t content_length_ = 0;
  std::optional<ChunkedDecoder> chunked_;
  HttpRequest request_;
  HttpError rejection_;
};

}  // namespace twostroke::http
