#include "server/text/jinja/civil_time.h"

#include <gtest/gtest.h>

#include <string>

namespace twostroke::jinja {
namespace {

std::string at(const char* time, std::string_view format) {
  const Result<CivilTime> parsed = parse_iso8601(time);
  return parsed.ok() ? format_time(format, *parsed) : parsed.status().message();
}

TEST(CivilTime, ReadsIso8601) {
  EXPECT_EQ(at("2026-07-01", "%F %T"), "2026-07-01 00:00:00");
  EXPECT_EQ(at("2026-07-01T12:00", "%F %T"), "2026-07-01 12:00:00");
  EXPECT_EQ(at("2026-07-01 12:34:56", "%F %T"), "2026-07-01 12:34:56");
  EXPECT_EQ(at("2026-07-01T12:34:56.789Z", "%F %T"), "2026-07-01 12:34:56");
  EXPECT_EQ(at("2024-02-29T23:59:59+02:00", "%F %T"), "2024-02-29 23:59:59");
}

TEST(CivilTime, RefusesWhatIsNoTime) {
  for (const char* text : {"", "x", "2026", "2026-13-01", "2026-02-29", "2026-07-01T", "2026-07-01T25:00",
                           "2026-07-01T12:60", "2026-07-01T12:00x", "-026-07-01", "0000-01-01"}) {
    EXPECT_FALSE(parse_iso8601(text).ok()) << text;
  }
}

TEST(CivilTime, CountsSecondsSince1970) {
  EXPECT_EQ(format_time("%F %T", civil_from_seconds(0)), "1970-01-01 00:00:00");
  EXPECT_EQ(format_time("%F %T", civil_from_seconds(-1)), "1969-12-31 23:59:59");
  EXPECT_EQ(format_time("%F %T", civil_from_seconds(1'782'907'200)), "2026-07-01 12:00:00");
  EXPECT_EQ(format_time("%F", civil_from_seconds(INT64_MAX)), "9999-12-31");
  EXPECT_EQ(format_time("%F", civil_from_seconds(INT64_MIN)), "1-01-01");
}

// Values from Python's datetime.strftime.
TEST(CivilTime, FormatsAsPythonDoes) {
  EXPECT_EQ(at("2026-07-01T12:00", "%a %A %b %B %h|%c|%x|%X|%D"),
            "Wed Wednesday Jul July Jul|Wed Jul  1 12:00:00 2026|07/01/26|12:00:00|07/01/26");
  EXPECT_EQ(at("2026-07-01T00:05:09", "%d %-d %e %m %-m %y %H %-H %I %-I %M %-M %S %p %r %R"),
            "01 1  1 07 7 26 00 0 12 12 05 5 09 AM 12:05:09 AM 00:05");
  EXPECT_EQ(at("2026-07-01T12:00", "%j %u %w %U %W %V %G"), "182 3 3 26 26 27 2026");
  EXPECT_EQ(at("2021-01-03T12:00", "%j %u %w %U %W %V %G"), "003 7 0 01 00 53 2020");
  EXPECT_EQ(at("2024-12-30T12:00", "%j %u %w %U %W %V %G"), "365 1 1 52 53 01 2025");
  EXPECT_EQ(at("2024-12-30T09:05", "%C %g %k %l %P %-k %-l"), "20 25  9  9 am 9 9");
  EXPECT_EQ(at("2026-07-01T12:00", "[%z%Z] %% %n%t %f %Q %"), "[] % \n\t 000000 %Q %");
}

}  // namespace
}  // namespace twostroke::jinja
