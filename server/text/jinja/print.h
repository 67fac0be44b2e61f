// Python's str() and repr() of values, with the marks of the strings in them. Digits, brackets, quotes and the words
// None, True and False are the interpreter's own and count as trusted.
#pragma once

#include <string>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

void append_str(Runtime& runtime, Builder& out, const Value& value);
void append_repr(Runtime& runtime, Builder& out, const Value& value);

// A string as it is; anything else as str() of it.
Text to_text(Runtime& runtime, const Value& value);
// The same as a value: a string keeps its identity and whether it is markup.
Value to_string_value(Runtime& runtime, const Value& value);
Text to_repr(Runtime& runtime, const Value& value);

// The shortest digits that read back as the same number, as Python's repr: "1.0", "1e+16", "nan".
std::string float_repr(double number);

}  // namespace twostroke::jinja
