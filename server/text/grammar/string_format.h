// JSON Schema's `format`: the strings of a format as a Dfa over the decoded text.
//
// Formats are meant as the documents say that the standard names (JSON Schema Validation 2020-12, section 7.3), with
// these narrowings: leap seconds in UTC only, at most 9 digits of a second's fraction, mail addresses without quoted
// parts and with a host's name, hosts in ASCII. Beyond the standard's: byte and base64, base64url, decimal, guid, uuid1
// to uuid7, ulid, jwt, e164, cidrv4 and ipv4network, cidrv6 and ipv6network and the like, ipvanyaddress, url; and
// binary, password, path, file-path and directory-path, which any text is.
//
// Thread-safety: thread-safe; each format is compiled once.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/text/grammar/dfa.h"

namespace twostroke::grammar {

// Null: not a format of strings that is known here.
const Dfa* string_format(std::string_view name);

// For formats whose automaton is large, another in few states, so that a bound on the length can be counted with it:
// its texts up to `length_max` characters are texts of the format. URIs without addresses in brackets; hosts and mail
// addresses as short as one label may be. Null where the format has none.
struct CountableFormat {
  const Dfa* texts = nullptr;
  uint64_t length_max = UINT64_MAX;
};
CountableFormat countable_string_format(std::string_view name);

}  // namespace twostroke::grammar
