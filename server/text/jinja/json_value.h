// JSON to values. The one place where the interpreter meets the JSON library.
//
// Objects keep the order of their keys. An integer beyond 64 bits with a sign becomes a float, as JSON readers without
// big integers have it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/text/jinja/runtime.h"
#include "server/text/jinja/value.h"

namespace twostroke::jinja {

// `trusted` is the mark of every string in it, keys included. Fails on strings that are not UTF-8 and on too deep
// nesting.
Value to_value(Runtime& runtime, const nlohmann::ordered_json& json, bool trusted);

// What a JSON text says. Its strings are trusted where the whole text is.
Value parse_json(Runtime& runtime, const Text& text);

}  // namespace twostroke::jinja
