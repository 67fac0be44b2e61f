#include "server/http/error_body.h"

#include <cstdint>

namespace twostroke::http {
namespace {

// The length in bytes of the well-formed UTF-8 sequence at the start of `text`, or 0 (Unicode 15, table 3-7).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto continues = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;   // no overlong forms
    const uint8_t high = lead == 0xed ? 0x9f : 0xbf;  // no surrogates
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;  // not beyond U+10FFFF
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

// Whether it is ASCII and stands for itself in a JSON string.
bool is_plain(char c) {
  return static_cast<uint8_t>(c) >= 0x20 && static_cast<uint8_t>(c) < 0x80 && c != '"' && c != '\\';
}

void append_escaped_ascii(std::string& out, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  out += "\\u00";
  out += kHex[static_cast<uint8_t>(c) >> 4];
  out += kHex[static_cast<uint8_t>(c) & 15];
}

std::string json_string_or_null(std::string_view text) { return text.empty() ? "null" : json_string(text); }

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  size_t copied = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = is_plain(text[i]) ? 1 : utf8_length(text.substr(i));
    if (length > 1 || is_plain(text[i])) {
      i += length;
      continue;
    }
    out += text.substr(copied, i - copied);
    if (length == 1) {
      append_escaped_ascii(out, text[i]);
    } else {
      out += "\xef\xbf\xbd";  // U+FFFD
    }
    copied = ++i;
  }
  out += text.substr(copied);
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_json_string(out, text);
  return out;
}

std::string error_body(std::string_view message, std::string_view type, std::string_view param, std::string_view code) {
  std::string body = "{\"error\":{\"message\":";
  body += json_string(message);
  body += ",\"type\":";
  body += json_string(type);
  body += ",\"param\":";
  body += json_string_or_null(param);
  body += ",\"code\":";
  body += json_string_or_null(code);
  body += "}}";
  return body;
}

HttpResponse error_response(int status, std::string_view message, std::string_view type, std::string_view param,
                            std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.body = error_body(message, type, param, code);
  return response;
}

HttpResponse error_response(const HttpError& error) {
  HttpResponse response = error_response(error.status, error.message, error.type(), {}, error.code);
  response.headers = error.headers;
  return response;
}

}  // namespace twostroke::http
