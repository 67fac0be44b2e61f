#include "server/http/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <charconv>
#include <limits>
#include <string>

#include "kernels/check.h"
#include "server/http/ascii.h"
#include "server/http/error_body.h"
#include "server/http/request_target.h"
#include "server/http/server.h"

namespace twostroke::http {
namespace {

namespace beast_http = boost::beast::http;

// Of a GET, OPTIONS, ... (RFC 9110, section 9.3: content there has no meaning).
constexpr size_t kUnusedBodyBytesMax = 64 * 1024;

// Whether `bytes`, the start of a request, cannot be one: its first word is not a method. Looks at no more than any
// method needs, however often it is asked while a header trickles in.
bool is_not_http(std::string_view bytes) {
  constexpr size_t kMethodBytesMax = 64;
  bytes = bytes.substr(0, kMethodBytesMax);
  const auto end = std::find_if_not(bytes.begin(), bytes.end(), is_token_char);
  if (end == bytes.end()) return false;
  if (bytes == "\r") return false;  // half of an empty line
  return end == bytes.begin() || *end != ' ';
}

// The length of the header that `bytes` starts with, or 0. Lines that end without CR count here, so that Beast gets to
// refuse them. No end lies in the first `scanned` bytes.
size_t header_length(std::string_view bytes, size_t scanned) {
  for (size_t i = bytes.find('\n', scanned < 2 ? 0 : scanned - 2); i < bytes.size(); i = bytes.find('\n', i + 1)) {
    const std::string_view rest = bytes.substr(i + 1);
    if (rest.starts_with('\n')) return i + 2;
    if (rest.starts_with("\r\n")) return i + 3;
  }
  return 0;
}

// Whether the first line of `header` ends in a version that is well written and not spoken here.
bool names_another_version(std::string_view header) {
  constexpr std::string_view kPattern = "HTTP/0.0\r";
  const std::string_view line = header.substr(0, header.find('\n'));
  if (line.size() < kPattern.size()) return false;
  const std::string_view version = line.substr(line.size() - kPattern.size());
  if (version == "HTTP/1.1\r" || version == "HTTP/1.0\r") return false;
  return std::equal(version.begin(), version.end(), kPattern.begin(),
                    [](char c, char p) { return p == '0' ? c >= '0' && c <= '9' : c == p; });
}

std::string limit_message(std::string_view what, size_t limit, std::string_view unit) {
  std::string message(what);
  message += " larger than this server takes (";
  message += std::to_string(limit);
  message += ' ';
  message += unit;
  message += ')';
  return message;
}

}  // namespace

size_t RequestParser::feed(std::string_view bytes) {
  if (bytes.empty()) return 0;
  switch (stage_) {
    case Stage::kHeader:
      return feed_header(bytes);
    case Stage::kBody:
      return feed_body(bytes);
    case Stage::kComplete:
    case Stage::kRejected:
      break;
  }
  return 0;
}

size_t RequestParser::feed_header(std::string_view bytes) {
  // An empty line before a request is passed over (RFC 9112, section 2.2).
  if (bytes.starts_with("\r\n")) return 2;
  if (is_not_http(bytes)) {
    reject(400, "The request does not start with an HTTP method.", "malformed_request");
    return 0;
  }
  const size_t length = header_length(bytes, scanned_);
  if (length > limits_.header_bytes_max || (length == 0 && bytes.size() >= limits_.header_bytes_max)) {
    reject(431, limit_message("The request's header is", limits_.header_bytes_max, "bytes"), "header_too_large");
    return 0;
  }
  if (length == 0) {
    scanned_ = bytes.size();
    return 0;
  }

  parse_header(bytes.substr(0, length));
  return length;
}

size_t RequestParser::feed_body(std::string_view bytes) {
  if (chunked_) return feed_chunked(bytes);
  const size_t count = std::min(bytes.size(), content_length_ - request_.body.size());
  request_.body.append(bytes.substr(0, count));
  if (request_.body.size() == content_length_) stage_ = Stage::kComplete;
  return count;
}

size_t RequestParser::feed_chunked(std::string_view bytes) {
  size_t consumed = 0;
  switch (chunked_->feed(bytes, request_.body, consumed)) {
    case ChunkedDecoder::Result::kMore:
      break;
    case ChunkedDecoder::Result::kComplete:
      stage_ = Stage::kComplete;
      break;
    case ChunkedDecoder::Result::kMalformed:
      reject(400, "The request's chunked body is malformed.", "malformed_request");
      break;
    case ChunkedDecoder::Result::kBodyTooLarge:
      reject_body();
      break;
    case ChunkedDecoder::Result::kFramingTooLarge:
      reject(400, limit_message("A chunk's size line or the trailers are", ChunkedDecoder::kFramingBytesMax, "bytes"),
             "malformed_request");
      break;
  }
  return consumed;
}

void RequestParser::parse_header(std::string_view header) {
  beast_http::request_parser<beast_http::empty_body> parser;
  parser.header_limit(std::numeric_limits<uint32_t>::max());  // feed_header() and read_framing() keep the limits
  parser.body_limit(boost::none);
  boost::system::error_code ec;
  parser.put(boost::asio::const_buffer(header.data(), header.size()), ec);
  // Also of what is rejected below: its path says how its client reads errors.
  const auto& message = parser.get();
  Result<RequestTarget> target = parse_request_target(std::string_view(message.target()));
  if (target.ok()) {
    request_.path = std::move(target->path);
    request_.query = std::move(target->query);
  }
  if (ec == beast_http::error::bad_version && names_another_version(header)) {
    reject(505, "This server speaks HTTP/1.1 and HTTP/1.0 only.", "unsupported_version");
    return;
  }
  if (ec || !parser.is_header_done()) {
    const std::string reason = ec && ec != beast_http::error::need_more ? ec.message() : "a line does not end in CR LF";
    reject(400, "The request's header is malformed: " + reason + ".", "malformed_request");
    return;
  }

  request_.method = std::string(message.method_string());
  for (const auto& field : message.base()) {
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  http_1_0_ = message.version() < 11;
  keep_alive_ = parser.keep_alive();
  if (request_.headers.size() > limits_.header_count_max) {
    reject(431, limit_message("The request's header is", limits_.header_count_max, "fields"), "header_too_large");
    return;
  }
  read_framing();
  check_host();
  check_expectation();
  if (!target.ok()) {
    reject(400, "The request is malformed: " + target.status().message() + ".", "malformed_request");
  }
}

// Two readers of one request must not see two different ends of it: whatever is ambiguous is refused.
void RequestParser::read_framing() {
  int lengths = 0;
  stage_ = Stage::kComplete;
  for (const auto& [name, value] : request_.headers) {
    if (equal_ignoring_case(name, "Content-Length")) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), content_length_);
      if (++lengths > 1 || error != std::errc() || end != value.data() + value.size()) {
        return reject(400, "The request's Content-Length is not one decimal number.", "malformed_request");
      }
      if (content_length_ > body_bytes_max()) return reject_body();
      if (content_length_ > 0) stage_ = Stage::kBody;
    } else if (equal_ignoring_case(name, "Transfer-Encoding")) {
      if (http_1_0_) return reject(400, "HTTP/1.0 has no Transfer-Encoding.", "malformed_request");
      if (!equal_ignoring_case(value, "chunked")) {
        return reject(501, "The only Transfer-Encoding this server takes is chunked.", "unsupported_transfer_encoding");
      }
      chunked_.emplace(body_bytes_max());
      stage_ = Stage::kBody;
    }
  }
  if (chunked_ && lengths > 0) {
    reject(400, "The request has both a Content-Length and a Transfer-Encoding.", "malformed_request");
  }
}

void RequestParser::check_host() {
  const auto hosts = std::count_if(request_.headers.begin(), request_.headers.end(),
                                   [](const auto& header) { return equal_ignoring_case(header.first, "Host"); });
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) {
    reject(400, "The request needs exactly one Host header (RFC 9112, section 3.2).", "malformed_request");
  }
}

void RequestParser::check_expectation() {
  const std::string_view expectation = request_.header("Expect");
  if (expectation.empty() || http_1_0_) return;
  if (!equal_ignoring_case(expectation, "100-continue")) {
    reject(417, "The only expectation this server meets is 100-continue.", "unsupported_expectation");
    return;
  }
  expects_continue_ = true;
}

void RequestParser::reject(int status, std::string_view message, std::string_view code) {
  if (stage_ == Stage::kRejected) return;  // the first thing that is wrong is named
  stage_ = Stage::kRejected;
  keep_alive_ = false;
  rejection_ = {.status = status, .message = std::string(message), .code = std::string(code)};
}

void RequestParser::reject_body() {
  reject(413, limit_message("The request's body is", body_bytes_max(), "bytes"), "request_too_large");
}

// A method whose requests have no use for a body does not get the memory for a large one.
size_t RequestParser::body_bytes_max() const {
  const std::string& method = request_.method;
  const bool has_use = method == "POST" || method == "PUT" || method == "PATCH";
  return has_use ? limits_.body_bytes_max : std::min(limits_.body_bytes_max, kUnusedBodyBytesMax);
}

HttpRequest RequestParser::take() {
  CHECK(stage_ == Stage::kComplete, "a request is taken when it is complete");
  return std::move(request_);
}

}  // namespace twostroke::http
