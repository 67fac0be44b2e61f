// MarkerSearch: finds the first of some markers in a text that comes byte by byte, and holds exactly the longest suffix
// that may still become one. A plain value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace twostroke::reply {

class MarkerSearch {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  MarkerSearch() = default;
  // None is empty. Where one marker is another's beginning, the shorter is found.
  explicit MarkerSearch(std::vector<std::string> markers);

  // The marker that ends with this byte, or kNone; then `certain` gets what is no part of any, in order. A marker that
  // is found is taken out of the text, and the search begins anew.
  size_t feed(char byte, std::string& certain);
  const std::string& held() const { return held_; }
  std::string take_held() { return std::exchange(held_, {}); }

 private:
  // The marker that the text is, else kNone; `begins` says whether it is one's beginning.
  size_t whole(std::string_view text, bool& begins) const;

  std::vector<std::string> markers_;
  std::string held_;
};

}  // namespace twostroke::reply
