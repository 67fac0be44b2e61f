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
  return "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[-+](?:[01][0-9]|2[0-3]):[0-5][0-9])";
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

// RFC 5321, section 4.1.2, without quoted local parts: 64 characters at most before the '@', 254 in all.
Result<Dfa> email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  const std::string shorter = label(30);
  const std::string host = "@" + label(63) + "(?:\\." + label(62) + "){0,2}";
  const Result<Dfa> all =
      compile_regex(atom + "(?:\\." + atom + ")*(?:" + host + "|@" + shorter + "(?:\\." + shorter + "){0,5})", true);
  const Result<Dfa> local = compile_regex("[^@]{0,64}@[^]*", true);
  return combine(*all, *local, DfaOperation::kIntersection);
}

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
std::string uri(bool with_scheme) {
  const std::string escaped = "%[0-9A-Fa-f]{2}";
  const std::string unreserved_and_sub = "-A-Za-z0-9._~!$&'()*+,;=";
  const std::string pchar = "(?:[" + unreserved_and_sub + ":@]|" + escaped + ")";
  const std::string segment_no_colon = "(?:[" + unreserved_and_sub + "@]|" + escaped + ")+";
  const std::string user = "(?:(?:[" + unreserved_and_sub + ":]|" + escaped + ")*@)?";
  const std::string future = "v[0-9A-Fa-f]+\\.[" + unreserved_and_sub + ":]+";
  const std::string host =
      "(?:\\[(?:" + ipv6() + "|" + future + ")\\]|(?:[" + unreserved_and_sub + "]|" + escaped + ")*)";
  const std::string authority = user + host + "(?::[0-9]*)?";
  const std::string rest = "(?:/" + pchar + "*)*";
  const std::string absolute = "/(?:" + pchar + "+" + rest + ")?";
  const std::string tail = "(?:\\?(?:" + pchar + "|[/?])*)?(?:#(?:" + pchar + "|[/?])*)?";
  const std::string begin = "(?://" + authority + rest + "|" + absolute + "|";
  const std::string with = "[A-Za-z][-A-Za-z0-9+.]*:" + begin + pchar + "+" + rest + "|)" + tail;
  if (with_scheme) return with;
  return with + "|" + begin + segment_no_colon + rest + "|)" + tail;
}

std::string uuid() { return "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"; }
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
std::string relative_json_pointer() { return "(?:0|[1-9][0-9]{0,8})(?:#|" + json_pointer() + ")"; }

constexpr std::array<Format, 13> kFormats = {{
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
}};

}  // namespace

const Dfa* string_format(std::string_view name) {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].name != name) continue;
    static std::array<std::once_flag, kFormats.size()> once;
    static std::array<Dfa, kFormats.size()> compiled;
    std::call_once(once[i], [i] { compiled[i] = kFormats[i].compile().value(); });
    return &compiled[i];
  }
  return nullptr;
}

}  // namespace twostroke::grammar
