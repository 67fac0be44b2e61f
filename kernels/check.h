// CHECK: a broken invariant of this program ends it at once, in every build, with a message that names the place.
//
// Use it for what no input can cause. What a client, a file or a machine may cause is a Status (status.h), never a
// CHECK.
#pragma once

#include <string_view>

namespace twostroke {

// Prints "CHECK failed: file:line: condition: message" on standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace twostroke

// CHECK(condition) or CHECK(condition, message): `message` is anything a std::string_view is made from, and is only
// evaluated when the condition is false.
#define TWOSTROKE_CHECK_1(condition) \
  (static_cast<bool>(condition) ? void() : ::twostroke::check_failed(__FILE__, __LINE__, #condition, {}))
#define TWOSTROKE_CHECK_2(condition, message) \
  (static_cast<bool>(condition) ? void() : ::twostroke::check_failed(__FILE__, __LINE__, #condition, (message)))
#define TWOSTROKE_CHECK_PICK(_1, _2, name, ...) name
#define CHECK(...) TWOSTROKE_CHECK_PICK(__VA_ARGS__, TWOSTROKE_CHECK_2, TWOSTROKE_CHECK_1, )(__VA_ARGS__)
