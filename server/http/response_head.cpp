#include "server/http/response_head.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/status.hpp>
#include <chrono>
#include <cstdint>

#include "kernels/check.h"
#include "server/http/ascii.h"

namespace twostroke::http {
namespace {

constexpr std::array<std::string_view, 7> kSetByServer = {
    "content-type", "content-length", "transfer-encoding", "x-request-id", "date", "server", "connection"};

bool set_by_server(std::string_view name) {
  return std::any_of(kSetByServer.begin(), kSetByServer.end(),
                     [&](std::string_view own) { return equal_ignoring_case(own, name); });
}

bool has_header(const Headers& headers, std::string_view name) {
  return std::any_of(headers.begin(), headers.end(),
                     [&](const auto& header) { return equal_ignoring_case(header.first, name); });
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  CHECK(is_token(name), "a header's name is a token");
  out += name;
  out += ": ";
  const size_t begin = out.size();
  out += value;
  std::replace_if(out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(), is_control, ' ');
  out += "\r\n";
}

// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, section 5.6.7).
std::string http_date(std::chrono::system_clock::time_point now) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(now - day));
  std::string text = kDays[std::chrono::weekday(day).c_encoding()];
  const auto append = [&text](std::string_view before, int64_t number) {
    text += before;
    text += static_cast<char>('0' + number / 10 % 10);
    text += static_cast<char>('0' + number % 10);
  };
  append(", ", static_cast<unsigned>(date.day()));
  text += ' ';
  text += kMonths[static_cast<unsigned>(date.month()) - 1];
  append(" ", static_cast<int>(date.year()) / 100);
  append("", static_cast<int>(date.year()));
  append(" ", time.hours().count());
  append(":", time.minutes().count());
  append(":", time.seconds().count());
  return text += " GMT";
}

void append_framing(std::string& out, const HttpResponse& response, Framing framing) {
  if (!status_has_body(response.status)) return;
  append_header(out, "Content-Type", response.content_type);
  switch (framing) {
    case Framing::kContentLength:
      append_header(out, "Content-Length", std::to_string(response.body.size()));
      break;
    case Framing::kChunked:
      append_header(out, "Transfer-Encoding", "chunked");
      break;
    case Framing::kUntilClose:
      break;
  }
}

void append_event_stream_headers(std::string& out, const HttpResponse& response) {
  if (!starts_with_ignoring_case(response.content_type, "text/event-stream")) return;
  if (!has_header(response.headers, "Cache-Control")) append_header(out, "Cache-Control", "no-cache");
  if (!has_header(response.headers, "X-Accel-Buffering")) append_header(out, "X-Accel-Buffering", "no");
}

}  // namespace

bool status_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

std::string response_head(const HttpResponse& response, const HeadOptions& options) {
  CHECK(response.status >= 200 && response.status <= 599, "an answer's status is 200 to 599");
  std::string out;
  out.reserve(512);
  out += "HTTP/1.1 ";
  out += std::to_string(response.status);
  out += ' ';
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  out.append(reason.data(), reason.size());
  out += "\r\n";

  append_header(out, "Server", "twostroke");
  append_header(out, "Date", http_date(options.now));
  append_header(out, "X-Request-Id", options.request_id);
  append_framing(out, response, options.framing);
  append_event_stream_headers(out, response);
  for (const Headers* headers : {&response.headers, options.headers}) {
    if (headers == nullptr) continue;
    for (const auto& [name, value] : *headers) {
      CHECK(!set_by_server(name), "the server sets that header itself");
      append_header(out, name, value);
    }
  }
  if (!options.keep_alive) {
    append_header(out, "Connection", "close");
  } else if (options.http_1_0) {
    append_header(out, "Connection", "keep-alive");
  }
  out += "\r\n";
  return out;
}

}  // namespace twostroke::http
