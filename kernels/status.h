// Status and Result: errors as values.
//
// A function that may fail for a reason outside this program (a client's request, a file, the machine) returns a
// Status, or a Result<T> when it also has a value to give. The message is written for the person who can do something
// about it: it says what is wrong and what to do. Nothing here throws.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "kernels/check.h"

namespace twostroke {

// What kind of failure it is; the server maps each to an HTTP status in one place.
enum class StatusCode {
  kOk,
  kInvalidArgument,    // the caller's input is wrong; asking again will not help
  kNotFound,           // a file, model or endpoint that does not exist
  kUnsupported,        // well-formed, but this build or model cannot do it
  kResourceExhausted,  // a named limit is reached; asking again later may help
  kUnavailable,        // loading, draining or failed
  kCancelled,          // the client went away or asked for it
  kDeadlineExceeded,   // the caller's own limit of time cannot be kept
  kInternal,           // a fault of the backend or of this program
};

// "invalid_argument", ...: stable names for logs and metrics.
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {
    CHECK(code != StatusCode::kOk, "an error needs an error code");
  }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }  // empty when OK

  friend bool operator==(const Status&, const Status&) = default;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
inline Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
inline Status resource_exhausted(std::string message) { return {StatusCode::kResourceExhausted, std::move(message)}; }
inline Status deadline_exceeded(std::string message) { return {StatusCode::kDeadlineExceeded, std::move(message)}; }
inline Status unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
inline Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

// A value or the Status that explains why there is none. Reading the value of a failed Result is a broken invariant.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose, so that `return value;` works
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    CHECK(!status_.ok(), "a Result without a value needs an error");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  T& value() & { return CHECK(ok(), status_.message()), *value_; }
  const T& value() const& { return CHECK(ok(), status_.message()), *value_; }
  T&& value() && { return CHECK(ok(), status_.message()), *std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace twostroke
