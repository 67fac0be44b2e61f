#include "server/ops/logging.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "kernels/printable.h"

namespace twostroke {

void start_logging(const std::string& level, const std::string& format) {
  auto logger = std::make_shared<spdlog::logger>("twostroke", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(spdlog::level::from_str(level));
  // JSON: messages come from this program's own format strings, with user text through log_text(), so that quoting them
  // as they are gives valid JSON.
  logger->set_pattern(format == "json" ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":"%v"})"
                                       : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

std::string log_text(std::string_view text) {
  static constexpr size_t kBytesMax = 200;
  std::string out;
  for (const char c : text.substr(0, kBytesMax)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  if (text.size() > kBytesMax) out += "...";
  return printable(out);
}

}  // namespace twostroke
