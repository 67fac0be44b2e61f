// A date and a time of day without a time zone: what `strftime_now` formats. The caller of a render decides which; no
// clock is read here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/status.h"

namespace twostroke::jinja {

struct CivilTime {
  int year = 1970;  // 1 to 9999
  int month = 1;    // 1 to 12
  int day = 1;      // 1 to 31
  int hour = 0;
  int minute = 0;
  int second = 0;
};

// Of seconds since 1970-01-01T00:00:00, in the zone in which they are counted (UTC where they are Unix time). Times
// before year 1 or after year 9999 become the first or the last second of those.
CivilTime civil_from_seconds(std::int64_t seconds);

// "2026-07-01", "2026-07-01T12:00", "2026-07-01T12:00:30", also with a space for the T; a zone at the end (Z or
// +02:00) is accepted and ignored, because the result has none.
Result<CivilTime> parse_iso8601(std::string_view text);

// As Python's datetime.strftime of a time without zone, in the C locale: %a %A %b %B %c %C %d %D %e %f %F %g %G %h %H
// %I %j %k %l %m %M %n %p %P %r %R %S %t %T %u %U %V %w %W %x %X %y %Y %z %Z %%, and glibc's %-d and the like without
// padding. Another conversion is kept as it is written, as glibc does.
std::string format_time(std::string_view format, const CivilTime& time);

}  // namespace twostroke::jinja
