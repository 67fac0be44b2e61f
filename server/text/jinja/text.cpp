#include "server/text/jinja/text.h"

#include <algorithm>
#include <utility>

namespace twostroke::jinja {

Text::Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), trusted});
}

std::size_t Text::run_index(std::size_t offset) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                    [](std::size_t value, const Run& candidate) { return value < candidate.end; });
  return static_cast<std::size_t>(run - runs_.begin());
}

bool Text::trusted_at(std::size_t offset) const { return runs_[run_index(offset)].trusted; }

void Text::extend_run(std::size_t end, bool trusted) {
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, trusted});
  }
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  extend_run(bytes_.size(), trusted);
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  const std::size_t base = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  for (std::size_t run = other.run_index(begin); run < other.runs_.size(); ++run) {
    const std::size_t run_end = std::min(other.runs_[run].end, end);
    extend_run(base + run_end - begin, other.runs_[run].trusted);
    if (run_end == end) break;
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text part;
  part.append(*this, begin, end);
  return part;
}

}  // namespace twostroke::jinja
