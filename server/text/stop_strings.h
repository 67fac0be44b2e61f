// StopStrings: finds the first stop string in text that arrives in pieces.
//
// Holds back exactly the longest suffix that is a proper prefix of some stop string, so that no part of a stop string
// ever reaches a client and nothing is held longer than it must be. The first stop string is the one that ends first;
// of several that end at the same byte, the longest (it begins first).
//
// One pass over the text with an Aho-Corasick automaton: linear, whatever the stop strings are.
//
// Thread-safety: one user at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace twostroke {

class StopStrings {
 public:
  // `stops` are non-empty. With `include_stop`, a match is kept at the end of the text.
  explicit StopStrings(const std::vector<std::string>& stops, bool include_stop = false);

  struct Output {
    std::string text;      // may be sent now
    bool stopped = false;  // a stop string was found; text ends right before it (or behind it), nothing follows
    std::string stop;      // which one it was
  };
  Output push(std::string_view text);  // requires that no earlier call returned stopped
  std::string finish();                // what was held back, when the text ends without a stop string

 private:
  // A node is a prefix of a stop string; the automaton is at the longest one that the text so far ends with.
  struct Node {
    std::map<char, uint32_t> children;
    uint32_t suffix = 0;     // the longest proper suffix that is a prefix of a stop string, too
    uint32_t size = 0;       // of the prefix, in bytes
    uint32_t stop_size = 0;  // of the longest stop string that the prefix ends with; 0: none
  };
  void add(std::string_view stop);
  void link_suffixes();
  uint32_t advance(uint32_t node, char byte) const;

  bool include_stop_;
  bool stopped_ = false;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  uint32_t node_ = 0;
  std::string held_;  // the text of node_
};

}  // namespace twostroke
