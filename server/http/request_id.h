// Identifiers of requests, for logs, support and the X-Request-Id header.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace twostroke::http {

inline constexpr size_t kRequestIdBytesMax = 128;

// What a client sent is used when it is short and all of it is printable ASCII other than space, '"' and '\', so that
// it is safe in a header, in JSON and in a log line.
bool usable_request_id(std::string_view id);

// Makes identifiers that do not repeat within a process and are unlikely to across processes. Thread-safe.
class RequestIds {
 public:
  RequestIds();
  std::string next();  // "req_" and 24 hexadecimal digits

 private:
  const uint64_t origin_;  // random, per process
  std::atomic<uint32_t> count_{0};
};

}  // namespace twostroke::http
