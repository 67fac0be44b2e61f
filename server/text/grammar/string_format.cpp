#include "server/text/grammar/string_format.h"

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "server/text/grammar/dfa_operations.h"
#include "server/text/grammar/regex.h"

namespace twostroke::grammar {

namespace {

// RFC 3339, section 5.6; months have their lengths, and February 29 comes in leap years.
std::string date() {
  const std::string leap_year = "(?:(?:[02468][048]|[13579][26])00|[0-9]{2}(?:0[48]|[2468][048]|[13579][26]))";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
         "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap_year + "-02-29)";
}
std::string time() {
  // A leap second comes before midnight, UTC.
  return "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])|"
         "23:59:60(?:\\.[0-9]{1,9})?(?:[Zz]|[-+]00:00))";
}

// RFC 3339, appendix A.
std::string duration() {
  const std::string digits = "[0-9]{1,9}";
  const std::string second = digits + "S";
  const std::string minute = digits + "M(?:" + second + ")?";
  const std::string hour = digits + "H(?:" + minute + ")?";
  const std::string time_part = "T(?:" + hour + "|" + minute + "|" + second + ")";
  const std::string day = digits + "D";
  const std::string month = digits + "M(?:" + day + ")?";
  const std::string year = digits + "Y(?:" + month + ")?";
  return "P(?:(?:" + day + "|" + month + "|" + year + ")(?:" + time_part + ")?|" + time_part + "|" + digits + "W)";
}

// RFC 1123, section 2.1. At most 253 characters, of 63 in a label; so that no automaton has to count both: three labels
// of any length, or eight of 30.
std::string label(int length_max) {
  return "[A-Za-z0-9](?:[-A-Za-z0-9]{0," + std::to_string(length_max - 2) + "}[A-Za-z0-9])?";
}
std::string hostname() {
  const std::string any = label(63);
  const std::string shorter = label(30);
  return "(?:" + any + "(?:\\." + any + "){0,2}|" + shorter + "(?:\\." + shorter + "){0,7})";
}

constexpr const char* kMailAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

// RFC 5321, section 4.1.2, without quoted local parts: 64 characters at most before the '@', 254 in all.
Result<Dfa> email() {
  const std::string atom = kMailAtom;
  const std::string shorter = label(30);
  const std::string host = "@" + label(63) + "(?:\\." + label(62) + "){0,2}";
  const Result<Dfa> all =
      compile_regex(atom + "(?:\\." + atom + ")*(?:" + host + "|@" + shorter + "(?:\\." + shorter + "){0,5})", true);
  const Result<Dfa> local = compile_regex("[^@]{0,64}@[^]*", true);
  return combine(*all, *local, DfaOperation::kIntersection);
}

// Without their limits of length.
std::string countable_hostname() {
  const std::string any = "[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?";
  return any + "(?:\\." + any + ")*";
}
std::string countable_email() { return std::string(kMailAtom) + "(?:\\." + kMailAtom + ")*@" + countable_hostname(); }

std::string ipv4() {
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return byte + "(?:\\." + byte + "){3}";
}

// RFC 4291, section 2.2. Eight groups, of which "::" stands for at least one; the last two may be an IPv4 address.
std::string ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  const std::string last_two = "(?:" + group + ":" + group + "|" + ipv4() + ")";
  std::string all = "(?:" + group + ":){6}" + last_two;
  const auto before = [&](int count) {  // up to `count` groups in front of "::"
    if (count == 0) return std::string();
    return "(?:(?:" + group + ":){0," + std::to_string(count - 1) + "}" + group + ")?";
  };
  for (int behind = 5; behind >= 0; --behind)  // groups between "::" and the last two
    all += "|" + before(5 - behind) + "::(?:" + group + ":){" + std::to_string(behind) + "}" + last_two;
  all += "|" + before(6) + "::" + group;
  all += "|" + before(7) + "::";
  return "(?:" + all + ")";
}

// RFC 3986, appendix A.
std::string uri(bool with_scheme, bool with_literals = true) {
  const std::string escaped = "%[0-9A-Fa-f]{2}";
  const std::string unreserved_and_sub = "-A-Za-z0-9._~!$&'()*+,;=";
  const std::string pchar = "(?:[" + unreserved_and_sub + ":@]|" + escaped + ")";
  const std::string segment_no_colon = "(?:[" + unreserved_and_sub + "@]|" + escaped + ")+";
  const std::string user = "(?:(?:[" + unreserved_and_sub + ":]|" + escaped + ")*@)?";
  const std::string future = "v[0-9A-Fa-f]+\\.[" + unreserved_and_sub + ":]+";
  const std::string literal = with_literals ? "\\[(?:" + ipv6() + "|" + future + ")\\]|" : "";
  const std::string host = "(?:" + literal + "(?:[" + unreserved_and_sub + "]|" + escaped + ")*)";
  const std::string authority = user + host + "(?::[0-9]*)?";
  const std::string rest = "(?:/" + pchar + "*)*";
  const std::string absolute = "/(?:" + pchar + "+" + rest + ")?";
  const std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  const std::string begin = "(?://" + authority + rest + "|" + absolute + "|";
  const std::string with = "[A-Za-z][-A-Za-z0-9+.]*:" + begin + pchar + "+" + rest + "|)" + tail;
  if (with_scheme) return with;
  return with + "|" + begin + segment_no_colon + rest + "|)" + tail;
}

template <char version>  // RFC 9562
std::string uuid_of() {
  return std::string("[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-") + version +
         "[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}";
}
std::string uuid() { return "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"; }
// RFC 4648. Groups of four characters, the last one padded, or with `padding` false left short.
std::string base64(const std::string& letters, bool padding) {
  const std::string digit = "[A-Za-z0-9" + letters + "]";
  const std::string end = padding ? digit + "{2}==|" + digit + "{3}=" : digit + "{2,3}";
  return "(?:" + digit + "{4})*(?:" + end + ")?";
}
std::string base64_standard() { return base64("+/", true); }
std::string base64_url() { return "(?:" + base64("_-", true) + "|" + base64("_-", false) + ")"; }
// https://github.com/ulid/spec: 26 characters of Crockford's base 32, the first at most 7.
std::string ulid() { return "[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}"; }
// ITU-T E.164: '+' and at most 15 digits.
std::string e164() { return "\\+[1-9][0-9]{6,14}"; }
// RFC 7519: three parts in base64url.
std::string jwt() { return "[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]*"; }
std::string ipv4_network() { return ipv4() + "/(?:3[0-2]|[12]?[0-9])"; }
std::string ipv6_network() { return ipv6() + "/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"; }
std::string ip_network() { return "(?:" + ipv4_network() + "|" + ipv6_network() + ")"; }
std::string ip_address() { return "(?:" + ipv4() + "|" + ipv6() + ")"; }
std::string decimal() { return "-?(?:0|[1-9][0-9]{0,30})(?:\\.[0-9]{1,30})?"; }
// What says how a text is shown or meant, not what it is.
std::string any_text() { return "[^]*"; }
std::string json_pointer() { return "(?:/(?:[^~/]|~[01])*)*"; }

struct Format {
  std::string_view name;
  Result<Dfa> (*compile)();
};

template <std::string (*pattern)()>
Result<Dfa> compile_pattern() {
  return compile_regex(pattern(), true);
}

std::string date_time() { return date() + "[Tt]" + time(); }
std::string uri_with_scheme() { return uri(true); }
std::string uri_reference() { return uri(false); }
std::string countable_uri() { return uri(true, false); }
std::string countable_uri_reference() { return uri(false, false); }
std::string relative_json_pointer() { return "(?:0|[1-9][0-9]{0,8})(?:#|" + json_pointer() + ")"; }

// First those of the standard, then those of OpenAPI's registry and of the libraries that schemas are written with
// (Pydantic, Zod, schemars).
constexpr auto kFormats = std::to_array<Format>({
    {"date", compile_pattern<date>},
    {"time", compile_pattern<time>},
    {"date-time", compile_pattern<date_time>},
    {"duration", compile_pattern<duration>},
    {"email", email},
    {"hostname", compile_pattern<hostname>},
    {"ipv4", compile_pattern<ipv4>},
    {"ipv6", compile_pattern<ipv6>},
    {"uri", compile_pattern<uri_with_scheme>},
    {"uri-reference", compile_pattern<uri_reference>},
    {"uuid", compile_pattern<uuid>},
    {"json-pointer", compile_pattern<json_pointer>},
    {"relative-json-pointer", compile_pattern<relative_json_pointer>},
    {"byte", compile_pattern<base64_standard>},
    {"base64", compile_pattern<base64_standard>},
    {"base64url", compile_pattern<base64_url>},
    {"binary", compile_pattern<any_text>},
    {"password", compile_pattern<any_text>},
    {"decimal", compile_pattern<decimal>},
    {"guid", compile_pattern<uuid>},
    {"uuid1", compile_pattern<uuid_of<'1'>>},
    {"uuid3", compile_pattern<uuid_of<'3'>>},
    {"uuid4", compile_pattern<uuid_of<'4'>>},
    {"uuid5", compile_pattern<uuid_of<'5'>>},
    {"uuid7", compile_pattern<uuid_of<'7'>>},
    {"ulid", compile_pattern<ulid>},
    {"jwt", compile_pattern<jwt>},
    {"e164", compile_pattern<e164>},
    {"cidrv4", compile_pattern<ipv4_network>},
    {"cidrv6", compile_pattern<ipv6_network>},
    {"ipv4network", compile_pattern<ipv4_network>},
    {"ipv6network", compile_pattern<ipv6_network>},
    {"ipv4interface", compile_pattern<ipv4_network>},
    {"ipv6interface", compile_pattern<ipv6_network>},
    {"ipvanyaddress", compile_pattern<ip_address>},
    {"ipvanynetwork", compile_pattern<ip_network>},
    {"ipvanyinterface", compile_pattern<ip_network>},
    {"path", compile_pattern<any_text>},
    {"file-path", compile_pattern<any_text>},
    {"directory-path", compile_pattern<any_text>},
    {"url", compile_pattern<uri_with_scheme>},
});

constexpr auto kCountableFormats = std::to_array<Format>({
    {"uri", compile_pattern<countable_uri>},
    {"url", compile_pattern<countable_uri>},
    {"uri-reference", compile_pattern<countable_uri_reference>},
    {"hostname", compile_pattern<countable_hostname>},
    {"email", compile_pattern<countable_email>},
});

template <const auto& formats>
const Dfa* find_format(std::string_view name) {
  for (size_t i = 0; i < formats.size(); ++i) {
    if (formats[i].name != name) continue;
    static std::array<std::once_flag, formats.size()> once;
    static std::array<Dfa, formats.size()> compiled;
    std::call_once(once[i], [i] { compiled[i] = formats[i].compile().value(); });
    return &compiled[i];
  }
  return nullptr;
}

}  // namespace

const Dfa* string_format(std::string_view name) { return find_format<kFormats>(name); }

CountableFormat countable_string_format(std::string_view name) {
  constexpr uint64_t kLabelMax = 63;
  const bool has_labels = name == "hostname" || name == "email";
  return {find_format<kCountableFormats>(name), has_labels ? kLabelMax : UINT64_MAX};
}

}  // namespace twostroke::grammar
