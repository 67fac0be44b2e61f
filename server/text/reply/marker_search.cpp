#include "server/text/reply/marker_search.h"

namespace twostroke::reply {

MarkerSearch::MarkerSearch(std::vector<std::string> markers) : markers_(std::move(markers)) {}

size_t MarkerSearch::whole(std::string_view text, bool& begins) const {
  begins = false;
  for (size_t i = 0; i < markers_.size(); ++i) {
    const std::string_view marker = markers_[i];
    if (marker == text) return i;
    begins = begins || marker.starts_with(text);
  }
  return kNone;
}

size_t MarkerSearch::feed(char byte, std::string& certain) {
  held_ += byte;
  while (!held_.empty()) {
    bool begins = false;
    const size_t found = whole(held_, begins);
    if (found != kNone) {
      held_.clear();
      return found;
    }
    if (begins) break;
    certain += held_.front();
    held_.erase(0, 1);
  }
  return kNone;
}

}  // namespace twostroke::reply
