#include "server/text/jinja/civil_time.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>

namespace twostroke::jinja {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

constexpr std::array kWeekdays = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array kMonths = {"January", "February", "March",     "April",   "May",      "June",
                                "July",    "August",   "September", "October", "November", "December"};

sys_days day_number(int year, int month, int day) {
  return std::chrono::year{year} / std::chrono::month{static_cast<unsigned>(month)} /
         std::chrono::day{static_cast<unsigned>(day)};
}

std::string padded(int number, int width, char pad) {
  std::string digits = std::to_string(number);
  if (static_cast<int>(digits.size()) < width) {
    digits.insert(0, static_cast<std::size_t>(width) - digits.size(), pad);
  }
  return digits;
}

// A time with the derived figures that formats ask for.
class TimeFormatter {
 public:
  explicit TimeFormatter(const CivilTime& time) : time_(time) {
    const sys_days today = day_number(time.year, time.month, time.day);
    weekday_ = static_cast<int>(std::chrono::weekday(today).c_encoding());
    year_day_ = static_cast<int>((today - day_number(time.year, 1, 1)).count());
    // The ISO 8601 year is the one that holds this week's Thursday.
    const sys_days thursday = today + days(4 - (weekday_ == 0 ? 7 : weekday_));
    const std::chrono::year_month_day date(thursday);
    iso_year_ = static_cast<int>(date.year());
    iso_week_ = static_cast<int>((thursday - day_number(iso_year_, 1, 1)).count()) / 7 + 1;
  }

  std::string format(std::string_view pattern) const {
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] != '%' || i + 1 == pattern.size()) {
        out += pattern[i];
        continue;
      }
      const bool unpadded = pattern[i + 1] == '-' && i + 2 < pattern.size();
      const std::size_t letter = i + (unpadded ? 2 : 1);
      if (const std::optional<std::string> field = conversion(pattern[letter], unpadded)) {
        out += *field;
      } else {
        out += pattern.substr(i, letter + 1 - i);
      }
      i = letter;
    }
    return out;
  }

 private:
  static std::string number(int value, int width, bool unpadded, char pad = '0') {
    return padded(value, unpadded ? 0 : width, pad);
  }

  int hour12() const { return time_.hour % 12 == 0 ? 12 : time_.hour % 12; }

  std::optional<std::string> conversion(char letter, bool unpadded) const {
    const std::string weekday = kWeekdays[static_cast<std::size_t>(weekday_)];
    const std::string month = kMonths[static_cast<std::size_t>(time_.month - 1)];
    switch (letter) {
      case 'a':
        return weekday.substr(0, 3);
      case 'A':
        return weekday;
      case 'b':
      case 'h':
        return month.substr(0, 3);
      case 'B':
        return month;
      case 'c':
        return format("%a %b %e %H:%M:%S %Y");
      case 'C':
        return number(time_.year / 100, 2, unpadded);
      case 'd':
        return number(time_.day, 2, unpadded);
      case 'D':
      case 'x':
        return format("%m/%d/%y");
      case 'e':
        return number(time_.day, 2, unpadded, ' ');
      case 'f':
        return "000000";
      case 'F':
        return format("%Y-%m-%d");
      case 'g':
        return number(iso_year_ % 100, 2, unpadded);
      case 'G':
        return std::to_string(iso_year_);
      case 'H':
        return number(time_.hour, 2, unpadded);
      case 'I':
        return number(hour12(), 2, unpadded);
      case 'j':
        return number(year_day_ + 1, 3, unpadded);
      case 'k':
        return number(time_.hour, 2, unpadded, ' ');
      case 'l':
        return number(hour12(), 2, unpadded, ' ');
      case 'm':
        return number(time_.month, 2, unpadded);
      case 'M':
        return number(time_.minute, 2, unpadded);
      case 'n':
        return "\n";
      case 'p':
        return time_.hour < 12 ? "AM" : "PM";
      case 'P':
        return time_.hour < 12 ? "am" : "pm";
      case 'r':
        return format("%I:%M:%S %p");
      case 'R':
        return format("%H:%M");
      case 'S':
        return number(time_.second, 2, unpadded);
      case 't':
        return "\t";
      case 'T':
      case 'X':
        return format("%H:%M:%S");
      case 'u':
        return std::to_string(weekday_ == 0 ? 7 : weekday_);
      case 'U':
        return number((year_day_ + 7 - weekday_) / 7, 2, unpadded);
      case 'V':
        return number(iso_week_, 2, unpadded);
      case 'w':
        return std::to_string(weekday_);
      case 'W':
        return number((year_day_ + 7 - (weekday_ + 6) % 7) / 7, 2, unpadded);
      case 'y':
        return number(time_.year % 100, 2, unpadded);
      case 'Y':
        return std::to_string(time_.year);
      case 'z':
      case 'Z':
        return "";
      case '%':
        return "%";
      default:
        return std::nullopt;
    }
  }

  const CivilTime time_;
  int weekday_;   // 0 is Sunday
  int year_day_;  // 0 is the first of January
  int iso_year_;
  int iso_week_;
};

// Takes exactly `digits` digits off the front of `text`.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || end != text.data() + digits || text.front() == '-') return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

bool is_zone(std::string_view text) {
  if (text.empty() || text == "Z") return true;
  if (!take(text, "+-") || !take_digits(text, 2)) return false;
  take(text, ":");
  return take_digits(text, 2).has_value() && text.empty();
}

std::optional<CivilTime> parse(std::string_view text) {
  CivilTime time;
  const auto field = [&](int& value, std::size_t digits) {
    const std::optional<int> number = take_digits(text, digits);
    if (number) value = *number;
    return number.has_value();
  };
  if (!field(time.year, 4) || !take(text, "-") || !field(time.month, 2) || !take(text, "-") || !field(time.day, 2)) {
    return std::nullopt;
  }
  if (take(text, "T ")) {
    if (!field(time.hour, 2) || !take(text, ":") || !field(time.minute, 2)) return std::nullopt;
    if (take(text, ":") && !field(time.second, 2)) return std::nullopt;
    if (take(text, ".")) {
      int digit = 0;
      if (!field(digit, 1)) return std::nullopt;
      while (field(digit, 1)) continue;
    }
  }
  const std::chrono::year_month_day date(std::chrono::year{time.year},
                                         std::chrono::month{static_cast<unsigned>(time.month)},
                                         std::chrono::day{static_cast<unsigned>(time.day)});
  if (!is_zone(text) || !date.ok() || time.year < 1) return std::nullopt;
  if (time.hour > 23 || time.minute > 59 || time.second > 60) return std::nullopt;
  return time;
}

}  // namespace

CivilTime civil_from_seconds(std::int64_t seconds) {
  constexpr std::int64_t kDay = 86'400;
  const std::int64_t first = day_number(1, 1, 1).time_since_epoch().count() * kDay;
  const std::int64_t last = day_number(9999, 12, 31).time_since_epoch().count() * kDay + kDay - 1;
  seconds = std::clamp(seconds, first, last);
  const std::int64_t day = (seconds - first) / kDay + first / kDay;
  const auto rest = static_cast<int>(seconds - day * kDay);
  const std::chrono::year_month_day date{sys_days(days(day))};
  return {static_cast<int>(date.year()),
          static_cast<int>(static_cast<unsigned>(date.month())),
          static_cast<int>(static_cast<unsigned>(date.day())),
          rest / 3600,
          rest / 60 % 60,
          rest % 60};
}

Result<CivilTime> parse_iso8601(std::string_view text) {
  if (const std::optional<CivilTime> time = parse(text)) return *time;
  return invalid_argument("\"" + std::string(text) + "\" is no ISO 8601 time; write it like 2026-07-01T12:00:00");
}

std::string format_time(std::string_view format, const CivilTime& time) { return TimeFormatter(time).format(format); }

}  // namespace twostroke::jinja
