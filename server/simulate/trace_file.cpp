#include "server/simulate/trace_file.h"

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "server/simulate/random.h"
#include "server/simulate/small_file.h"

namespace twostroke::simulate {
namespace {

constexpr const char* kAzureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr uint32_t kTraceTokensMax = 1 << 24;  // of a prompt, and of an answer
constexpr uint64_t kTimestampMaxMs = 1'000'000'000'000;

std::optional<uint64_t> parse_whole(std::string_view text, uint64_t greatest) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value > greatest) return std::nullopt;
  return value;
}

// What both formats have in common: lines, their numbers, and time that does not go back.
class TraceReader : public Workload {
 public:
  TraceReader(const std::string& path, uint64_t seed) : path_(path), seed_(seed), file_(path, std::ios::binary) {}

  Status begin() {
    if (!file_) return not_found("the trace '" + path_ + "' cannot be opened; does it exist?");
    std::error_code error;
    bytes_total_ = std::filesystem::file_size(path_, error);
    return error ? invalid_argument("the trace '" + path_ + "' is not a file") : read_header();
  }

  Result<bool> next(Arrival& arrival) final {
    while (true) {
      Result<bool> more = read_line();
      if (!more.ok() || !*more) return more;
      if (!line_.empty()) break;
    }
    arrival.prompt.clear();
    TimeNs time = 0;
    if (Status status = parse_line(arrival, time); !status.ok()) return status;
    if (requests_ == 0) first_ = time;
    if (time < first_ + last_) return damaged("is earlier than the one before; sort the trace by time");
    last_ = arrival.time = time - first_;
    arrival.output_tokens = std::max(arrival.output_tokens, 1u);
    ++requests_;
    return true;
  }

  double progress() const final {
    return bytes_read_ >= bytes_total_ ? 1 : static_cast<double>(bytes_read_) / static_cast<double>(bytes_total_);
  }

 protected:
  virtual Status read_header() { return {}; }
  virtual Status parse_line(Arrival& arrival, TimeNs& time) = 0;

  Status damaged(const std::string& what) const {
    return invalid_argument(path_ + ":" + std::to_string(line_number_) + ": the request " + what);
  }

  // False at the end of the file. The line is in `line_`, without its end.
  Result<bool> read_line() {
    line_.clear();
    ++line_number_;
    std::streambuf& bytes = *file_.rdbuf();
    constexpr int kEnd = std::char_traits<char>::eof();
    int byte = bytes.sbumpc();
    if (byte == kEnd) return false;
    for (; byte != kEnd && byte != '\n'; byte = bytes.sbumpc()) {
      if (line_.size() == kTraceLineBytesMax) {
        return invalid_argument(path_ + ":" + std::to_string(line_number_) + ": the line is longer than " +
                                std::to_string(kTraceLineBytesMax) + " bytes; is this a trace?");
      }
      line_ += static_cast<char>(byte);
    }
    bytes_read_ += line_.size() + 1;
    if (line_.ends_with('\r')) line_.pop_back();
    return true;
  }

  const std::string path_;
  const uint64_t seed_;
  std::string line_;
  uint64_t line_number_ = 0;
  uint64_t requests_ = 0;

 private:
  std::ifstream file_;
  uint64_t bytes_total_ = 0;
  uint64_t bytes_read_ = 0;
  TimeNs first_ = 0;
  TimeNs last_ = 0;
};

class AzureTrace final : public TraceReader {
 public:
  using TraceReader::TraceReader;

 private:
  Status read_header() override {
    Result<bool> more = read_line();
    if (!more.ok()) return more.status();
    if (*more && line_ == kAzureHeader) return {};
    return invalid_argument(path_ + ":1: the first line of an Azure trace is " + kAzureHeader);
  }

  Status parse_line(Arrival& arrival, TimeNs& time) override {
    const std::string_view line = line_;
    const size_t first = line.find(',');
    const size_t second = first == std::string_view::npos ? first : line.find(',', first + 1);
    if (second == std::string_view::npos)
      return damaged("has fewer than three fields: TIMESTAMP,ContextTokens,GeneratedTokens");
    const std::optional<TimeNs> stamp = parse_timestamp(line.substr(0, first));
    if (!stamp) return damaged("has no time such as 2023-11-16 18:15:46.6805900");
    const std::optional<uint64_t> prompt = parse_whole(line.substr(first + 1, second - first - 1), kTraceTokensMax);
    if (!prompt || *prompt == 0)
      return damaged("has ContextTokens that are not from 1 to " + std::to_string(kTraceTokensMax));
    const std::optional<uint64_t> output = parse_whole(line.substr(second + 1), kTraceTokensMax);
    if (!output) return damaged("has GeneratedTokens that are not from 0 to " + std::to_string(kTraceTokensMax));
    time = *stamp;
    arrival.prompt_tokens = static_cast<uint32_t>(*prompt);
    arrival.output_tokens = static_cast<uint32_t>(*output);
    arrival.prompt.push_back({derive_seed(seed_, requests_), arrival.prompt_tokens});
    return {};
  }
};

class MooncakeTrace final : public TraceReader {
 public:
  using TraceReader::TraceReader;

 private:
  Status parse_line(Arrival& arrival, TimeNs& time) override {
    const auto object = nlohmann::json::parse(line_, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return damaged("is not a JSON object");
    uint64_t timestamp = 0;
    uint64_t prompt = 0;
    uint64_t output = 0;
    for (const auto& [key, greatest, least, target] :
         {std::tuple{"timestamp", kTimestampMaxMs, uint64_t{0}, &timestamp},
          std::tuple{"input_length", uint64_t{kTraceTokensMax}, uint64_t{1}, &prompt},
          std::tuple{"output_length", uint64_t{kTraceTokensMax}, uint64_t{0}, &output}}) {
      const auto found = object.find(key);
      if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() < least ||
          found->get<uint64_t>() > greatest) {
        return damaged(std::string("has no \"") + key + "\" that is a whole number from " + std::to_string(least) +
                       " to " + std::to_string(greatest));
      }
      *target = found->get<uint64_t>();
    }
    const auto ids = object.find("hash_ids");
    const uint64_t blocks = (prompt + kMooncakeBlockTokens - 1) / kMooncakeBlockTokens;
    if (ids == object.end() || !ids->is_array() || ids->size() != blocks) {
      return damaged("has no \"hash_ids\" with one id for each 512 tokens: " + std::to_string(blocks) + " for " +
                     std::to_string(prompt));
    }
    for (const nlohmann::json& id : *ids) {
      if (!id.is_number_unsigned()) return damaged("has \"hash_ids\" that are not whole numbers of 0 or more");
      const uint64_t left = prompt - arrival.prompt.size() * kMooncakeBlockTokens;
      const auto length = static_cast<uint32_t>(std::min<uint64_t>(left, kMooncakeBlockTokens));
      arrival.prompt.push_back({derive_seed(seed_, id.get<uint64_t>()), length});
    }
    time = static_cast<TimeNs>(timestamp) * kMillisecondNs;
    arrival.prompt_tokens = static_cast<uint32_t>(prompt);
    arrival.output_tokens = static_cast<uint32_t>(output);
    return {};
  }
};

}  // namespace

std::optional<TimeNs> parse_timestamp(std::string_view text) {
  // 0123456789012345678
  // 2023-11-16 18:15:46.6805900
  constexpr std::string_view kPattern = "dddd-dd-dd dd:dd:dd";
  if (text.size() < kPattern.size()) return std::nullopt;
  for (size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kPattern[i] == 'd' ? !digit : text[i] != kPattern[i] && !(i == 10 && text[i] == 'T')) return std::nullopt;
  }
  const auto number = [&](size_t begin, size_t count) {
    return static_cast<unsigned>(*parse_whole(text.substr(begin, count), UINT32_MAX));
  };
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(number(0, 4))),
                                         std::chrono::month(number(5, 2)), std::chrono::day(number(8, 2))};
  const unsigned hour = number(11, 2);
  const unsigned minute = number(14, 2);
  const unsigned second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  uint64_t fraction = 0;
  std::string_view rest = text.substr(kPattern.size());
  if (!rest.empty()) {
    if (rest[0] != '.' || rest.size() < 2 || rest.size() > 10) return std::nullopt;
    const std::optional<uint64_t> digits = parse_whole(rest.substr(1), UINT64_MAX);
    if (!digits) return std::nullopt;
    fraction = *digits;
    for (size_t i = rest.size() - 1; i < 9; ++i) fraction *= 10;
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  if (days < 0 || date.year() > std::chrono::year(2200)) return std::nullopt;
  const TimeNs seconds = TimeNs{days} * 86400 + hour * 3600 + minute * 60 + second;
  return seconds * kSecondNs + static_cast<TimeNs>(fraction);
}

Result<std::unique_ptr<Workload>> open_trace(const std::string& path, uint64_t seed) {
  const bool azure = path.ends_with(".csv");
  if (!azure && !path.ends_with(".jsonl")) {
    return invalid_argument("the trace '" + path + "' is neither .csv (Azure) nor .jsonl (Mooncake)");
  }
  if (Status status = check_regular_file(path); !status.ok()) return status;
  std::unique_ptr<TraceReader> trace;
  if (azure) {
    trace = std::make_unique<AzureTrace>(path, seed);
  } else {
    trace = std::make_unique<MooncakeTrace>(path, seed);
  }
  if (Status status = trace->begin(); !status.ok()) return status;
  return std::unique_ptr<Workload>(std::move(trace));
}

}  // namespace twostroke::simulate
