// JSON Schema's `format`: the strings of a format as a Dfa over the decoded text.
//
// Formats are meant as the documents say that the standard names (JSON Schema Validation 2020-12, section 7.3), with
// these narrowings: no leap seconds, at most 9 digits of a second's fraction, mail addresses without quoted parts and
// with a host's name, hosts in ASCII.
//
// Thread-safety: thread-safe; each format is compiled once.
#pragma once

#include <string_view>

#include "server/text/grammar/dfa.h"

namespace twostroke::grammar {

// Null: not a format of strings that is known here.
const Dfa* string_format(std::string_view name);

}  // namespace twostroke::grammar
