// JsonGuard: what a text of JSON may cost to parse, checked before it is parsed.
//
// The parsed form is a tree that is copied and taken down by recursion, and whose objects keep their members in order
// and find a name by looking at one after another. So a text of few megabytes can take the stack, or hours, or the
// memory: by nesting deeply, by one object of a million members, or by millions of values of two bytes each, like "[]",
// that become nodes of a hundred. One guard counts over all texts of one request, so that many texts of the allowed
// cost do not add up either.
//
// Linear in the text, no allocation beyond one number for each level. Thread-safety: one user at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/status.h"

namespace twostroke {

class JsonGuard {
 public:
  // Comparisons of names: about 2,000 members in one object, or 300,000 objects of four. Some ten milliseconds.
  static constexpr uint64_t kNameComparisonsMax = uint64_t{1} << 21;

  // Memory of the tree's nodes, as estimated by what each takes at least on its way through a growing array; the bytes
  // of strings do not count, which are no more than the text's own. A million numbers, or 60,000 chat messages.
  static constexpr uint64_t kNodeBytesMax = uint64_t{32} << 20;
  static constexpr uint64_t kValueBytes = 32;      // a place in its container
  static constexpr uint64_t kContainerBytes = 64;  // what an array or object has beside it
  static constexpr uint64_t kStringBytes = 64;     // likewise a string, names of members too

  explicit JsonGuard(int depth_max) : depth_max_(depth_max) {}

  // OK, or kInvalidArgument that ends a sentence ("is nested more than 128 levels deep"). What the text says where it
  // is not JSON does not matter: a parser stops there.
  Status check(std::string_view text);

  // Of all texts so far.
  uint64_t name_comparisons() const { return name_comparisons_; }
  uint64_t node_bytes() const { return node_bytes_; }

 private:
  const int depth_max_;
  uint64_t name_comparisons_ = 0;
  uint64_t node_bytes_ = 0;
  std::vector<uint64_t> members_;  // of each open bracket: names seen
};

}  // namespace twostroke
