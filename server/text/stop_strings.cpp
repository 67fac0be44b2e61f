#include "server/text/stop_strings.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace twostroke {

StopStrings::StopStrings(const std::vector<std::string>& stops, bool include_stop) : include_stop_(include_stop) {
  for (const std::string& stop : stops) add(stop);
  link_suffixes();
}

void StopStrings::add(std::string_view stop) {
  CHECK(!stop.empty(), "a stop string is not empty");
  uint32_t node = 0;
  for (const char byte : stop) {
    const auto [child, created] = nodes_[node].children.try_emplace(byte, static_cast<uint32_t>(nodes_.size()));
    const uint32_t size = nodes_[node].size + 1;
    node = child->second;
    if (created) nodes_.push_back({.children = {}, .suffix = 0, .size = size, .stop_size = 0});
  }
  nodes_[node].stop_size = nodes_[node].size;
}

// Breadth first: a node's suffix is shorter than the node, so it is complete when it is needed.
void StopStrings::link_suffixes() {
  std::vector<uint32_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const uint32_t node = queue[i];
    for (const auto& [byte, child] : nodes_[node].children) {
      nodes_[child].suffix = node == 0 ? 0 : advance(nodes_[node].suffix, byte);
      nodes_[child].stop_size = std::max(nodes_[child].stop_size, nodes_[nodes_[child].suffix].stop_size);
      queue.push_back(child);
    }
  }
}

uint32_t StopStrings::advance(uint32_t node, char byte) const {
  for (;;) {
    const auto child = nodes_[node].children.find(byte);
    if (child != nodes_[node].children.end()) return child->second;
    if (node == 0) return 0;
    node = nodes_[node].suffix;
  }
}

StopStrings::Output StopStrings::push(std::string_view text) {
  CHECK(!stopped_, "nothing follows a stop string");
  if (nodes_.size() == 1) return {.text = std::string(text)};
  held_.reserve(held_.size() + text.size());
  for (const char byte : text) {
    held_ += byte;
    node_ = advance(node_, byte);
    if (const uint32_t stop_size = nodes_[node_].stop_size; stop_size > 0) {
      stopped_ = true;
      std::string stop = held_.substr(held_.size() - stop_size);
      if (!include_stop_) held_.erase(held_.size() - stop_size);
      return {std::exchange(held_, {}), true, std::move(stop)};
    }
  }
  Output out{.text = held_.substr(0, held_.size() - nodes_[node_].size)};
  held_.erase(0, out.text.size());
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace twostroke
